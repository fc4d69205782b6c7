"""Which container engine starts the sandboxes: the one place that knows them by name."""

from sandbox_core.engines.base import Engine
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.podman import PodmanEngine
from sandbox_core.errors import InvalidRequest

__all__ = ["ENGINE_NAMES", "make_engine"]

_ENGINES = {engine.name: engine for engine in (DockerEngine, PodmanEngine)}
ENGINE_NAMES = tuple(_ENGINES)


def make_engine(
    name: str,
    address: str = "",
    image: str = "run-code-python:latest",
    runtime: str = "runsc",
    pull_missing_image: bool = False,
) -> Engine:
    """The engine of this name. ``address`` is as in DOCKER_HOST; "" is the engine's usual
    one. Raises InvalidRequest for a name that is none of ENGINE_NAMES."""
    if name not in _ENGINES:
        known = ", ".join(ENGINE_NAMES)
        raise InvalidRequest(f"There is no container engine “{name}”: choose {known}.")
    return _ENGINES[name](address, image, runtime, pull_missing_image)
