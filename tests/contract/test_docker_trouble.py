"""Fails closed: whatever Docker lacks, one clear sentence comes soon, and nothing was run."""

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
from tests.contract.daemons import SocketProxy, private_daemon, silent_socket
from tests.contract.runs import contents, describe, run

HOST_PROGRAM = """
import sys
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner
host, image, runtime = sys.argv[1:]
runner = LocalRunner(DockerEngine(host, image, runtime), image, runtime)
runner.run(
    RunRequest(steps=(Step("python", "import time; print('up'); time.sleep(60)"),)),
    lambda event: print(event.kind, flush=True),
)
"""


def attempt(docker_host, image, runtime):
    """(result, seconds) of print(1) there."""
    runner = LocalRunner(DockerEngine(docker_host, image, runtime), image, runtime)
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
    assert "/" not in result.message.replace("docs/setup.md", "")
    assert seconds < within


@pytest.fixture
def proxy(docker_host, socket_folder):
    assert docker_host.startswith("unix://"), "these tests need DOCKER_HOST=unix://…"
    proxy = SocketProxy(socket_folder / "d.sock", docker_host.removeprefix("unix://"))
    yield proxy
    proxy.down()


def test_h07_a_runtime_that_is_not_registered(docker_engine, docker_host, image):
    refused(attempt(docker_host, image, "nosuch"), "gVisor is not set up", 5)


def test_h07_a_runtime_that_is_not_gvisor(docker_engine, docker_host, image):
    refused(attempt(docker_host, image, "runc"), "“runc” is not gVisor", 15)


def test_h07_a_runtime_whose_binary_is_gone(tmp_path, socket_folder):
    gone = {"runsc": f"{tmp_path}/gone/runsc"}
    with private_daemon(socket_folder, gone) as docker_host:
        refused(
            attempt(docker_host, "empty:latest", "runsc"), "gVisor is not set up", 5
        )
        assert DockerEngine(docker_host).leftovers() == []


def test_h06_a_missing_image_is_not_pulled(docker_engine, docker_host, runtime):
    missing = "run-code-no-such-image:latest"
    refused(attempt(docker_host, missing, runtime), "image is not on this host", 5)


def test_h04_nobody_listens(tmp_path, image, runtime):
    address = f"unix://{tmp_path}/nothing.sock"
    refused(attempt(address, image, runtime), "cannot be reached", 5)


def test_h05_a_daemon_that_accepts_and_never_answers(socket_folder, image, runtime):
    with silent_socket(socket_folder / "s.sock") as docker_host:
        refused(attempt(docker_host, image, runtime), "did not answer in time", 15)


def test_h04_it_comes_back_by_itself(docker_engine, proxy, image, runtime):
    runner = LocalRunner(
        DockerEngine(proxy.docker_host, image, runtime), image, runtime
    )
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


def test_h04_a_daemon_that_goes_in_mid_run(docker_engine, proxy, image, runtime):
    proxy.up()
    runner = LocalRunner(
        DockerEngine(proxy.docker_host, image, runtime), image, runtime
    )
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


def test_h05_a_daemon_that_hangs_in_mid_run(docker_engine, proxy, image, runtime):
    proxy.up()
    runner = LocalRunner(
        DockerEngine(proxy.docker_host, image, runtime), image, runtime
    )
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


def test_a_cancelled_run_does_not_wait_for_a_daemon_that_hangs(
    docker_engine, proxy, image, runtime
):
    proxy.up()
    runner = LocalRunner(
        DockerEngine(proxy.docker_host, image, runtime), image, runtime
    )
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


def test_a_killed_host_process_leaves_nothing(
    docker_engine, docker_host, image, runtime
):
    host = subprocess.Popen(
        [sys.executable, "-c", HOST_PROGRAM, docker_host, image, runtime],
        stdout=subprocess.PIPE,
        text=True,
    )
    with host:
        assert [host.stdout.readline() for _ in range(2)] == ["started\n", "text\n"]
        assert len(sandboxes_of(docker_engine, host.pid)) == 1
        host.kill()
    deadline = Deadline(10)
    while left := sandboxes_of(docker_engine, host.pid):
        assert not deadline.passed(), f"still there: {left}"
        time.sleep(0.1)


def sandboxes_of(engine, pid):
    machine = current_owner().split("/")[0]
    return [
        lease
        for lease in engine.leftovers()
        if lease.owner.startswith(f"{machine}/{pid}/")
    ]
