"""The Docker daemon is killed in the middle of a run: told at once, nothing left, and on."""

import docker
import pytest

from sandbox_core.engines.docker import DockerEngine
from sandbox_core.models import RunRequest, Step
from sandbox_core.outcome import Outcome
from sandbox_core.remote_runner import RemoteRunner
from tests.codebox.tokens import SECRET
from tests.contract.daemons import PrivateDaemon

IMAGE = "run-code-base:latest"  # small, and it has Python
# In one write: print makes two, and the second may come too late.
BEGUN = "import sys, time\nsys.stdout.write('begun\\n')\ntime.sleep(120)"
SLEEPER = RunRequest(steps=(Step("python", BEGUN),), user="u1")


@pytest.fixture
def daemon(docker_host, runtime, socket_folder):
    """A daemon of our own with the runtime of the other one, and its smallest image."""
    client = docker.APIClient(docker_host)
    runtimes = {runtime: client.info()["Runtimes"][runtime]}
    daemon = PrivateDaemon(socket_folder, runtimes)
    try:
        daemon.start()
        own = docker.APIClient(daemon.docker_host, timeout=120)
        own.load_image(client.get_image(IMAGE))
        yield daemon
    finally:
        daemon.stop()
        client.close()


def test_dockerd_is_killed_in_the_middle(daemon, runtime, start_service, wait_until):
    service = start_service(
        docker_host=daemon.docker_host, image=IMAGE, runtime=runtime
    )
    runner = RemoteRunner(service.url, SECRET)

    def kill(event):
        if "begun" in event.text:
            assert daemon.processes("runsc")
            daemon.kill()

    result = runner.run(SLEEPER, kill)
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "ended unexpectedly" in result.message
    assert str(result.stdout) == "begun\n"
    assert result.total_seconds < 30
    again = runner.run(SLEEPER)
    assert "container engine cannot be reached" in again.message
    # The guest sees the end of its stdin, whoever else is gone.
    wait_until(lambda: not daemon.processes("runsc"), 60)

    daemon.start()
    done = service.run("print(1)").json()
    assert (done["outcome"], done["stdout"]) == ("ok", "1\n")
    engine = DockerEngine(daemon.docker_host, IMAGE, runtime)
    wait_until(lambda: not engine.leftovers(), 60)
    runner.close()
