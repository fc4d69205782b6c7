"""Engines for the tests that need one, and the proof that nothing of theirs is left.

DOCKER_HOST       where the engine is (the machine's own when unset)
RUN_CODE_IMAGE    the sandbox image (run-code-python:latest)
RUN_CODE_ENGINES  which engines to test, by comma: docker-runsc, docker-runsc-ptrace, …: the
                  part after "docker-" is Docker's name of the runtime (docker-runsc)

An engine that is named and absent fails its tests; nothing is left out silently.
"""

import os
import time

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.leases import current_owner

ENGINES = os.environ.get("RUN_CODE_ENGINES", "docker-runsc").split(",")
GONE_SECONDS = 15.0


@pytest.fixture(scope="session")
def docker_host():
    """Address of the Docker Engine, as in DOCKER_HOST."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


@pytest.fixture(scope="session")
def image():
    """Name of the sandbox image."""
    return os.environ.get("RUN_CODE_IMAGE", "run-code-python:latest")


@pytest.fixture(scope="session", params=ENGINES)
def runtime(request):
    """Docker's name of the runtime under test."""
    kind, _, runtime = request.param.partition("-")
    if kind != "docker" or not runtime:
        pytest.fail(f"There is no engine “{request.param}”: set RUN_CODE_ENGINES.")
    return runtime


@pytest.fixture(scope="session")
def docker_engine(docker_host, image, runtime):
    """The engine under test, known to work; at the end it must hold nothing of ours."""
    engine = DockerEngine(docker_host, image, runtime)
    for finding in engine.check(Deadline(10)):
        if not finding.ok:
            pytest.fail(f"{finding.text} Mend it: {finding.mend}")
    yield engine
    deadline = Deadline(GONE_SECONDS)
    while left := own_leftovers(engine):
        if deadline.passed():
            pytest.fail(f"Sandboxes of this test run survived it: {left}")
        time.sleep(0.2)


def own_leftovers(engine):
    """Leases of the sandboxes of this very process; others may use the engine too."""
    owner = current_owner()
    return [lease for lease in engine.leftovers() if lease.owner == owner]
