"""Podman by way of its Docker-compatible socket: the Docker engine at another address, and
what Podman does otherwise (seen in 4.3)."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.egress import NO_ROUTES, EgressSettings, Route
from sandbox_core.engines.base import Finding, SandboxSpec
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.docker_api import DockerApi
from sandbox_core.engines.docker_channel import DockerChannel
from sandbox_core.errors import EngineError
from sandbox_core.leases import Lease

__all__ = ["PodmanEngine", "podman_address"]

_OF_ALL = "/run/podman/podman.sock"
# Podman puts writable folders without a size on a read-only root, unless they are named.
_ITS_OWN_FOLDERS = ("/run", "/var/tmp")


class PodmanApi(DockerApi):
    """Its events end only in the future, or when they are asked not to go on."""

    def events(
        self, deadline: Deadline, container_id: str, kinds: list[str], since: int
    ) -> list[dict[str, Any]]:
        """See DockerApi.events. A filter by kind knows Podman's own names only."""
        with self.client(deadline) as client:
            answer = client.get(
                f"{client.base_url}/v{client.api_version}/events",
                params={
                    "since": since,
                    "stream": "false",
                    "filters": json.dumps({"container": [container_id]}),
                },
            )
            answer.raise_for_status()
            events = [json.loads(line) for line in answer.text.splitlines() if line]
        return [event for event in events if event["Action"] in kinds]


class PodmanChannel(DockerChannel):
    """A Channel over one container of Podman, which does not see that memory ran out."""

    def _looks_like_oom(self, exit_code: int | None) -> bool:
        """The kernel ends the whole sandbox, or the part of gVisor that holds the guest: its
        exit code is 1 then, and a guest that fails by itself says why."""
        silent = not self._records.untrusted_diagnostics
        return super()._looks_like_oom(exit_code) or (exit_code == 1 and silent)


class PodmanEngine(DockerEngine):
    """Sandboxes from Podman. Without ``docker_host`` the environment says where it is, else
    the first of its usual sockets that exists."""

    name = "podman"
    title = "Podman"
    program = "podman"
    start_command = "systemctl --user start podman.socket"
    _api_class = PodmanApi
    _channel_class = PodmanChannel

    def __init__(
        self,
        docker_host: str = "",
        image: str = "run-code-python:latest",
        runtime: str = "runsc",
        pull_missing_image: bool = False,
    ) -> None:
        address = docker_host or podman_address(os.environ)
        super().__init__(address, image, runtime, pull_missing_image)

    def _config(self, spec: SandboxSpec) -> dict[str, Any]:
        config = super()._config(spec)
        host = config["HostConfig"]
        host["Tmpfs"] |= dict.fromkeys(_ITS_OWN_FOLDERS, "ro,size=4k")
        # As "Mounts" they would be without what is mounted in them, where gVisor cannot start.
        host["Mounts"] = []
        host["Binds"] = [
            f"{folder.path}:{folder.target}:ro,rbind,rprivate"
            for folder in spec.data_folders
        ]
        # It would give a timer of systemd to the health check that there is not to be.
        del config["Healthcheck"]
        return config

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route: there is none here."""
        raise EngineError(NO_ROUTES)

    def _network_leases(self) -> list[Lease]:
        return []

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
            f'give the service a CONTAINERS_CONF with runtime = "{self._runtime}" below '
            "[engine], and restart it (docs/setup.md, “Podman”)"
        )

    def _check_limits(self, info: dict[str, Any]) -> list[Finding]:
        """Only Podman's log says that it leaves limits out."""
        if not info.get("Rootless") or info.get("CgroupVersion") != "1":
            return []
        text = (
            "Podman limits nothing for this user, because control groups are of version 1: "
            "memory and processes are limited inside the sandbox only, processors not at all."
        )
        return [Finding("limits", True, text)]


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
