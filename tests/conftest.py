"""Engines for the tests that need one, and the proof that nothing of theirs is left.

DOCKER_HOST             where the Docker Engine is (the machine's own when unset)
RUN_CODE_IMAGE          the sandbox image (run-code-python:latest)
RUN_CODE_FULL_IMAGE     the one with all languages (run-code-full:latest, by scripts/image)
RUN_CODE_DATA_IMAGE     the one with larger packages (run-code-data:latest, the same way)
RUN_CODE_SLIM_IMAGE     the one without packages (run-code-slim:latest, the same way)
RUN_CODE_MIRROR_IMAGE   the proxy of a package index (run-code-mirror:latest, the same way)
RUN_CODE_EGRESS_IMAGE   the proxy to the network (run-code-egress:latest, the same way)
RUN_CODE_RUNSC          gVisor's program for the embedded engine (the one that it finds)
RUN_CODE_IMAGES_FOLDER  images that scripts/rootfs prepared for it (its usual place)
RUN_CODE_ENGINES        which engines to test, by comma (docker-runsc):
                          docker-NAME   NAME is Docker's name of the runtime
                          runsc         embedded, with what this host and user allow
                          runsc-watch   embedded, as on a host without control groups
                          podman        Podman, whose usual runtime is runsc
RUN_CODE_PODMAN_HOST    address of Podman's socket (its usual one)

An engine that is named and absent fails its tests; nothing is left out silently.
"""

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.podman import PodmanEngine
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.engines.runsc_walls import ControlGroups
from sandbox_core.leases import current_owner

ENGINES = os.environ.get("RUN_CODE_ENGINES", "docker-runsc").split(",")
DOCKER_ENGINES = [name for name in ENGINES if name.startswith("docker-")]
API_ENGINES = [name for name in ENGINES if name.startswith(("docker-", "podman"))]
EMBEDDED_ENGINES = [name for name in ENGINES if name.startswith("runsc")]
GONE_SECONDS = 15.0


@pytest.fixture(scope="session")
def docker_host():
    """Address of the Docker Engine, as in DOCKER_HOST."""
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


@pytest.fixture(scope="session")
def image():
    """Name of the sandbox image."""
    return os.environ.get("RUN_CODE_IMAGE", "run-code-python:latest")


@pytest.fixture(scope="session")
def full_image():
    """Name of the image with all languages."""
    return os.environ.get("RUN_CODE_FULL_IMAGE", "run-code-full:latest")


@pytest.fixture(scope="session")
def data_image():
    """Name of the image with larger packages."""
    return os.environ.get("RUN_CODE_DATA_IMAGE", "run-code-data:latest")


@pytest.fixture(scope="session")
def slim_image():
    """Name of the image without packages."""
    return os.environ.get("RUN_CODE_SLIM_IMAGE", "run-code-slim:latest")


@pytest.fixture(scope="session")
def mirror_image():
    """Name of the image of the mirror."""
    return os.environ.get("RUN_CODE_MIRROR_IMAGE", "run-code-mirror:latest")


@pytest.fixture(scope="session")
def egress_image():
    """Name of the image of the proxy to the network."""
    return os.environ.get("RUN_CODE_EGRESS_IMAGE", "run-code-egress:latest")


@pytest.fixture(scope="session", params=DOCKER_ENGINES)
def runtime(request):
    """Docker's name of the runtime under test."""
    return request.param.removeprefix("docker-")


@pytest.fixture(scope="session")
def docker_engine(docker_host, image, runtime):
    """The Docker engine under test, for what only Docker has."""
    with proven(DockerEngine(docker_host, image, runtime)) as engine:
        yield engine


@pytest.fixture(scope="session", params=API_ENGINES)
def api_engine(request, docker_host, image):
    """The engine under test that is spoken to as Docker is, for what only those have."""
    with proven(open_engine(request.param, image, docker_host)) as engine:
        yield engine


@pytest.fixture(scope="session", params=EMBEDDED_ENGINES)
def embedded_engine(request, image):
    """The embedded engine under test, for what only that one has."""
    with proven(open_engine(request.param, image)) as engine:
        yield engine


@pytest.fixture(scope="session", params=ENGINES)
def engine(request, docker_host, image):
    """The engine under test, known to work; at the end it must hold nothing of ours."""
    with proven(open_engine(request.param, image, docker_host)) as engine:
        yield engine


@pytest.fixture(scope="session")
def first_engine(docker_host, image):
    """The first engine of RUN_CODE_ENGINES, for what is the same on all."""
    with proven(open_engine(ENGINES[0], image, docker_host)) as engine:
        yield engine


@pytest.fixture
def socket_folder():
    """A folder for Unix sockets, whose paths may have 107 characters: tmp_path is too long."""
    with tempfile.TemporaryDirectory(
        prefix="rc-", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def open_engine(name, image, docker_host=""):
    """The engine of one name in RUN_CODE_ENGINES."""
    kind, _, variant = name.partition("-")
    if kind == "docker" and variant:
        return DockerEngine(docker_host, image, variant)
    if kind == "runsc" and variant in ("", "watch"):
        return RunscEngine(
            image,
            os.environ.get("RUN_CODE_RUNSC", ""),
            os.environ.get("RUN_CODE_IMAGES_FOLDER", ""),
            control_groups=ControlGroups(Path("/nowhere")) if variant else None,
        )
    if name == "podman":
        return PodmanEngine(os.environ.get("RUN_CODE_PODMAN_HOST", ""), image)
    pytest.fail(f"There is no engine “{name}”: set RUN_CODE_ENGINES.")


@contextmanager
def proven(engine):
    """An engine that its own check finds well; in the end none of our sandboxes is there."""
    for finding in engine.check(Deadline(60)):
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
