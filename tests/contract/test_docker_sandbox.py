"""What runs over Docker cost the host, and what a sandbox looks like from outside."""

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import closing

import docker
import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.leases import LABEL_EXPIRES, LABEL_OWNER, LABEL_RUN, current_owner
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner
from scripts.benchmarks.subject import Subject
from scripts.benchmarks.watched_engine import (
    DONE,
    STARTED,
    STEP_ENDED,
    WatchedEngine,
)
from tests.contract.runs import contents, describe, request_of, run

SPIN = """
import os
os.fork(); os.fork()
print("spinning")
while True: pass
"""
# A quarter of a gigabyte, half of it one line.
PRINTS_MUCH = """
import os
for _ in range(2000): os.write(1, b"x" * 62500)
for _ in range(2000): os.write(1, (b"x" * 99 + b"\\n") * 625)
"""
PRINTS_A_GIGABYTE = """
import os
for _ in range(16000): os.write(1, b"x" * 62500)
"""
HOST_PROGRAM = """
import resource, sys
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner

def largest_size(code, **limits):
    result = runner.run(RunRequest((Step("python", code),), limits=Limits(**limits)))
    return result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

host, image, runtime, much, gigabyte = sys.argv[1:]
runner = LocalRunner(DockerEngine(host, image, runtime), image, runtime)
_, before = largest_size("print(1)")
stopped, _ = largest_size(gigabyte)
result, after = largest_size(much, output_mib=1024, seconds=240)
told = len(result.stdout.head) + len(result.stdout.tail) + result.stdout.omitted
print(stopped.outcome, result.outcome, told, after - before)
"""


@pytest.fixture(scope="module")
def runner(docker_engine, image, runtime):
    runner = LocalRunner(docker_engine, image, runtime)
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def api(docker_engine, docker_host):
    with closing(docker.APIClient(docker_host, timeout=20)) as client:
        yield client


def while_running(runner, code, look, **options):
    """(what look(run id) returns while the program runs, result)."""
    request = request_of([("python", code)], **options)
    said, seen = threading.Event(), []

    def watch(event):
        if event.kind == "text":
            said.set()

    def wait_and_look():
        assert said.wait(20)
        seen.append(look(request.run_id))

    looker = threading.Thread(target=wait_and_look)
    looker.start()
    result = runner.run(request, watch)
    looker.join(30)
    return seen[0], result


def container_of(api, run_id):
    (entry,) = api.containers(filters={"label": f"{LABEL_RUN}={run_id}"})
    return entry


def test_a_sandbox_carries_its_labels_and_nothing_of_the_program(
    runner, api, image, runtime
):
    code = "secret_word = 1\nprint('up')\nimport time; time.sleep(1)"
    began = time.time()

    def look(run_id):
        entry = container_of(api, run_id)
        return entry["Labels"], api.inspect_container(entry["Id"])

    (labels, inspected), result = while_running(runner, code, look)
    assert result.outcome is Outcome.OK, describe(result)
    assert labels[LABEL_OWNER] == current_owner()
    assert labels[LABEL_RUN] == result.run_id
    assert began + 30 < float(labels[LABEL_EXPIRES]) < began + 300
    assert inspected["HostConfig"]["Runtime"] == runtime
    assert inspected["HostConfig"]["AutoRemove"] is True
    assert "secret_word" not in repr(inspected)


@pytest.mark.parametrize("cpus", [1.0, 0.3])
def test_processor_time_is_limited(runner, api, cpus):
    def look(run_id):
        container = container_of(api, run_id)["Id"]
        samples = []
        for _ in range(2):
            stats = api.stats(container, stream=False, one_shot=True)
            samples.append(
                (time.monotonic(), stats["cpu_stats"]["cpu_usage"]["total_usage"])
            )
            time.sleep(3 if len(samples) == 1 else 0)
        (t1, used1), (t2, used2) = samples
        return (used2 - used1) / 1e9 / (t2 - t1)

    used, result = while_running(runner, SPIN, look, cpus=cpus, seconds=6)
    assert result.outcome is Outcome.TIMEOUT, describe(result)
    assert used < cpus * 1.25


def test_a_mebibyte_each_way_is_quick(runner):
    data = os.urandom(1 << 20)
    code = "open('out', 'wb').write(open('in', 'rb').read())"
    plain = min(run(runner, "print(1)").total_seconds for _ in range(3))
    results = [run(runner, code, inputs={"in": data}) for _ in range(3)]
    assert all(contents(result) == {"out": data} for result in results)
    assert min(result.total_seconds for result in results) < plain + 3


def test_r32_two_hundred_thousand_files_are_one_sentence(runner):
    """Or as many as it makes within its time."""
    code = "for i in range(200_000): open(f'f{i}', 'w').close()"
    result = run(runner, code, seconds=15)
    assert result.outcome in (Outcome.OK, Outcome.TIMEOUT), describe(result)
    assert len(result.files) == 100
    (told,) = result.skipped
    assert re.fullmatch(
        r"(more than )?\d{4,6} files beyond the limit of 100", told.reason
    )
    assert result.total_seconds - result.seconds < 10  # with the start and the transfer


def test_the_time_of_a_run_is_that_of_its_programs(docker_host, image, runtime):
    """What comes after the program's end does not count, however long it takes."""
    engine = WatchedEngine(Subject(image, runtime))
    runner = LocalRunner(engine, image, runtime)
    code = "head -c 60M /dev/urandom > large"
    try:
        result = runner.run(request_of([("bash", code)]))
    finally:
        runner.close()
    assert [file.size for file in result.files] == [60 << 20], describe(result)
    ended, started = engine.at[STEP_ENDED], engine.at[STARTED]
    after = engine.at[DONE] - ended
    assert abs(result.seconds - (ended - started)) < after / 2


def test_a_gigabyte_of_output_costs_the_host_little(
    docker_engine, docker_host, image, runtime
):
    """Under the default cap; and a quarter of it without one, for memory must not grow."""
    programs = (PRINTS_MUCH, PRINTS_A_GIGABYTE)
    done = subprocess.run(
        [sys.executable, "-c", HOST_PROGRAM, docker_host, image, runtime, *programs],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    *told, grown = done.stdout.split()
    assert told == ["output_limit", "ok", str(250_000_000)], done.stdout
    assert int(grown) < 50, f"grew by {grown} MiB"


def test_many_runs_leave_no_thread_descriptor_or_container(runner, docker_engine):
    def used():
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    for _ in range(2):
        run(runner, "print(1)", on_event=lambda event: None)
    before = used()
    for _ in range(5):
        run(runner, "print(1)", on_event=lambda event: None)
    deadline = Deadline(10)
    while own_sandboxes(docker_engine):
        assert not deadline.passed()
        time.sleep(0.05)
    threads, descriptors = used()
    # The threads that dispose of sandboxes have a connection each.
    assert threads <= before[0] + 4
    assert descriptors <= before[1] + 4


def own_sandboxes(engine):
    return [lease for lease in engine.leftovers() if lease.owner == current_owner()]
