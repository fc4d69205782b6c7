"""Fails closed: whatever Docker or Podman lacks, one clear sentence comes soon, and nothing was
run."""

import subprocess
import sys
import threading
import time

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.leases import current_owner
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner
from tests.contract.daemons import private_daemon, silent_socket
from tests.contract.runs import contents, describe, run
from tests.docker_proxy import DockerProxy

HOST_PROGRAM = """
import sys
from sandbox_core.engines.choice import make_engine
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner
name, host, image, runtime = sys.argv[1:]
runner = LocalRunner(make_engine(name, host, image, runtime), image, runtime)
runner.run(
    RunRequest(steps=(Step("python", "import time; print('up'); time.sleep(60)"),)),
    lambda event: print(event.kind, flush=True),
)
"""


def attempt(engine, image, runtime=""):
    """(result, seconds) of print(1) there."""
    runner = LocalRunner(engine, image, runtime or engine._runtime)
    began = time.monotonic()
    try:
        return (
            run(runner, "open('ran', 'w').close(); print(1)"),
            time.monotonic() - began,
        )
    finally:
        runner.close()


def refused(attempted, words, within):
    result, seconds = attempted
    assert result.outcome is Outcome.SANDBOX_ERROR, describe(result)
    assert words in result.message
    assert "nothing was run" in result.message
    assert (str(result.stdout), contents(result)) == ("", {})
    ours = result.message.replace("docs/setup.md", "").replace("images/python", "")
    assert "/" not in ours
    assert seconds < within


@pytest.fixture
def elsewhere(api_engine, image):
    """elsewhere(address): the same engine there."""
    return lambda address: type(api_engine)(address, image)


@pytest.fixture
def proxy(api_engine, socket_folder):
    proxy = DockerProxy(socket_folder / "d.sock", api_engine._address)
    yield proxy
    proxy.down()


def test_h07_a_runtime_that_is_not_registered(docker_engine, docker_host, image):
    refused(attempt(docker_engine, image, "nosuch"), "gVisor is not set up", 5)


def test_h07_a_runtime_that_is_not_gvisor(docker_engine, docker_host, image):
    refused(attempt(docker_engine, image, "runc"), "“runc” is not gVisor", 15)


def test_h07_a_runtime_whose_binary_is_gone(tmp_path, socket_folder):
    gone = {"runsc": f"{tmp_path}/gone/runsc"}
    with private_daemon(socket_folder, gone) as docker_host:
        engine = DockerEngine(docker_host)
        refused(attempt(engine, "empty:latest"), "gVisor is not set up", 5)
        assert engine.leftovers() == []


def test_h06_a_missing_image_is_not_pulled(api_engine):
    missing = "run-code-no-such-image:latest"
    attempted = attempt(api_engine, missing)
    refused(attempted, "image is not on this host", 5)
    command = f"{api_engine.program} build -t {missing} images/python"
    assert command in attempted[0].message


def test_h06_a_missing_image_of_a_registry_is_named_without_it(api_engine):
    attempted = attempt(api_engine, "registry.internal:5000/team/mine:3")
    refused(attempted, "It is called mine:3", 5)
    assert "internal" not in attempted[0].message


def test_h04_nobody_listens(elsewhere, tmp_path, image):
    engine = elsewhere(f"unix://{tmp_path}/nothing.sock")
    refused(attempt(engine, image), "cannot be reached", 5)


def test_h05_a_daemon_that_accepts_and_never_answers(elsewhere, socket_folder, image):
    with silent_socket(socket_folder / "s.sock") as address:
        refused(attempt(elsewhere(address), image), "did not answer in time", 15)


def test_h04_it_comes_back_by_itself(elsewhere, proxy, image):
    runner = LocalRunner(elsewhere(proxy.docker_host), image)
    try:
        for _ in range(2):
            assert "cannot be reached" in run(runner, "print(1)").message
            proxy.up()
            result = run(runner, "print(1)")
            assert (result.outcome, str(result.stdout)) == (
                Outcome.OK,
                "1\n",
            ), describe(result)
            proxy.down()
    finally:
        runner.close()


def test_h04_a_daemon_that_goes_in_mid_run(elsewhere, proxy, image):
    proxy.up()
    runner = LocalRunner(elsewhere(proxy.docker_host), image)
    said = threading.Event()
    threading.Thread(target=lambda: said.wait(20) and proxy.down()).start()
    began = []

    def watch(event):
        if event.kind == "text":
            began.append(time.monotonic())
            said.set()

    try:
        result = run(
            runner, "import time; print('so far'); time.sleep(60)", on_event=watch
        )
    finally:
        runner.close()
    assert result.outcome is Outcome.SANDBOX_ERROR, describe(result)
    assert str(result.stdout).startswith("so far")
    assert "ended unexpectedly" in result.message
    assert time.monotonic() - began[0] < 5


def test_h05_a_daemon_that_hangs_in_mid_run(elsewhere, proxy, image):
    proxy.up()
    runner = LocalRunner(elsewhere(proxy.docker_host), image)
    try:
        began = time.monotonic()
        result = run(
            runner,
            "import time; print('so far'); time.sleep(60)",
            on_event=lambda event: event.kind == "text" and proxy.hang(),
            seconds=1,
        )
        assert result.outcome is Outcome.TIMEOUT, describe(result)
        assert str(result.stdout).startswith("so far")
        assert time.monotonic() - began < 25
    finally:
        proxy.down()
        runner.close()


def test_a_cancelled_run_does_not_wait_for_a_daemon_that_hangs(elsewhere, proxy, image):
    proxy.up()
    runner = LocalRunner(elsewhere(proxy.docker_host), image)
    cancel, cancelled = CancelToken(), []

    def watch(event):
        if event.kind == "text":
            proxy.hang()
            cancelled.append(time.monotonic())
            cancel.cancel()

    try:
        code = "import time; print('so far'); time.sleep(60)"
        result = run(runner, code, on_event=watch, cancel=cancel)
        assert result.outcome is Outcome.CANCELLED, describe(result)
        assert time.monotonic() - cancelled[0] < 15
    finally:
        proxy.down()
        runner.close()


def test_a_killed_host_process_leaves_nothing(api_engine, image):
    where = (api_engine.name, api_engine._address)
    host = subprocess.Popen(
        [sys.executable, "-c", HOST_PROGRAM, *where, image, api_engine._runtime],
        stdout=subprocess.PIPE,
        text=True,
    )
    with host:
        assert [host.stdout.readline() for _ in range(2)] == ["started\n", "text\n"]
        assert len(sandboxes_of(api_engine, host.pid)) == 1
        host.kill()
    deadline = Deadline(10)
    while left := sandboxes_of(api_engine, host.pid):
        assert not deadline.passed(), f"still there: {left}"
        time.sleep(0.1)


def sandboxes_of(engine, pid):
    machine = current_owner().split("/")[0]
    return [
        lease
        for lease in engine.leftovers()
        if lease.owner.startswith(f"{machine}/{pid}/")
    ]
