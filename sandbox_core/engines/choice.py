"""Which engine starts the sandboxes: the one place that knows them by name."""

import os
from collections.abc import Mapping
from pathlib import Path

from sandbox_core.engines.base import Engine
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.podman import PodmanEngine
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.engines.runsc_program import find_runsc
from sandbox_core.errors import EngineError, InvalidRequest

__all__ = ["ENGINE_NAMES", "make_engine", "usual_engine_name"]

_CONTAINER_ENGINES = {engine.name: engine for engine in (DockerEngine, PodmanEngine)}
ENGINE_NAMES = (*_CONTAINER_ENGINES, RunscEngine.name)
_DOCKER_SOCKET = "/var/run/docker.sock"


def make_engine(
    name: str,
    address: str = "",
    image: str = "run-code-python:latest",
    runtime: str = "runsc",
    pull_missing_image: bool = False,
    runsc: str = "",
    images_folder: str = "",
) -> Engine:
    """The engine of this name. ``address`` is as in DOCKER_HOST; "" is the engine's usual
    one. ``runsc`` and ``images_folder`` are for the embedded engine, whose platform is what
    follows the first hyphen of ``runtime``. Raises InvalidRequest for a name that is none of
    ENGINE_NAMES, or a platform that gVisor has not."""
    if name == RunscEngine.name:
        platform = runtime.partition("-")[2]
        return RunscEngine(image, runsc, images_folder, platform=platform or "systrap")
    if name not in _CONTAINER_ENGINES:
        known = ", ".join(ENGINE_NAMES)
        raise InvalidRequest(f"There is no engine “{name}”: choose {known}.")
    return _CONTAINER_ENGINES[name](address, image, runtime, pull_missing_image)


def usual_engine_name(
    address: str = "",
    runsc: str = "",
    environ: Mapping[str, str] = os.environ,
    docker_socket: str = _DOCKER_SOCKET,
) -> str:
    """What “auto” means: Docker where an address is given or its socket is there; else the
    embedded engine where gVisor's program is; else Docker, whose errors say what to do.
    """
    if address or environ.get("DOCKER_HOST") or Path(docker_socket).exists():
        return DockerEngine.name
    try:
        find_runsc(runsc)
    except EngineError:
        return DockerEngine.name
    return RunscEngine.name
