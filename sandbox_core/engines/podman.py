"""Podman by way of its Docker-compatible socket: the Docker engine at another address."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox_core.engines.base import Finding
from sandbox_core.engines.docker import DockerEngine

__all__ = ["PodmanEngine", "podman_address"]

_OF_ALL = "/run/podman/podman.sock"


class PodmanEngine(DockerEngine):
    """Sandboxes from Podman. Without ``docker_host`` the environment says where it is, else
    the first of its usual sockets that exists."""

    name = "podman"
    title = "Podman"
    start_command = "systemctl --user start podman.socket"

    def __init__(
        self,
        docker_host: str = "",
        image: str = "run-code-python:latest",
        runtime: str = "runsc",
        pull_missing_image: bool = False,
    ) -> None:
        address = docker_host or podman_address(os.environ)
        super().__init__(address, image, runtime, pull_missing_image)

    def _check_runtime(self, info: dict[str, Any]) -> Finding:
        """Podman's API runs each container in its usual runtime, whatever is asked for."""
        finding = super()._check_runtime(info)
        usual = str(info.get("DefaultRuntime"))
        # The name, or else the path of a program that has it.
        if not finding.ok or usual.rpartition("/")[2] == self._runtime:
            return finding
        text = f"Podman's usual runtime is {usual}, and its API takes no other."
        return Finding("runtime", False, text, self._mend_for_runtime())

    def _mend_for_runtime(self) -> str:
        return (
            f'in /etc/containers/containers.conf: runtime = "{self._runtime}" below '
            f'[engine], {self._runtime} = ["/usr/bin/runsc", "--network=none"] below '
            "[engine.runtimes]; then restart podman.socket"
        )


def podman_address(environ: Mapping[str, str]) -> str:
    """Where Podman listens: as these variables say, else its socket of this user, else that
    of the whole machine."""
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        if environ.get(name):
            return environ[name]
    paths = list(_usual_sockets(environ))
    return "unix://" + next((path for path in paths if Path(path).exists()), paths[-1])


def _usual_sockets(environ: Mapping[str, str]) -> Iterator[str]:
    if os.getuid() != 0:
        folder = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        yield f"{folder}/podman/podman.sock"
    yield _OF_ALL
