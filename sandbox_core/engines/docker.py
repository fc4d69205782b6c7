"""The engine over Docker's API: one hardened, single-use gVisor container per sandbox.

Four calls make a sandbox: create, attach, start, remove. Every call has a time-out, and
every attach has a connection of its own.
"""

import os
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.egress import EgressSettings, Route
from sandbox_core.engines.base import CancelToken, Finding, SandboxSpec
from sandbox_core.engines.docker_api import DockerApi
from sandbox_core.engines.docker_channel import DockerChannel, remove_container
from sandbox_core.engines.docker_routes import DockerRoutes
from sandbox_core.engines.machine import (
    machine_obstacles,
    read_machine,
    restart_docker_command,
)
from sandbox_core.errors import ChannelClosed, EngineError, ImageMissing
from sandbox_core.hardening import container_config
from sandbox_core.leases import LABEL_EXPIRES, LABEL_OWNER, LABEL_RUN, Lease

__all__ = ["DockerEngine"]

_DOCKER_DESKTOP = "Docker Desktop"  # as it calls its system
_LIST_SECONDS = 10.0
_START_SECONDS = 15.0
_ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}


class DockerEngine:
    """Sandboxes from a Docker Engine. ``docker_host`` is as in DOCKER_HOST; "" means the
    environment. ``image`` and ``runtime`` are those that check() looks for."""

    name = "docker"
    title = "Docker Engine"
    program = "docker"
    start_command = "sudo systemctl start docker"
    _api_class = DockerApi
    _channel_class = DockerChannel

    def __init__(
        self,
        docker_host: str = "",
        image: str = "run-code-python:latest",
        runtime: str = "runsc",
        pull_missing_image: bool = False,
    ) -> None:
        self._address = docker_host or os.environ.get("DOCKER_HOST", "")
        self._api = self._api_class(self._address, self.name.title())
        self._routes = DockerRoutes(self._api)
        self._image = image
        self._runtime = runtime
        self._pull_missing_image = pull_missing_image

    @property
    def is_here(self) -> bool:
        """See Engine.is_here."""
        return not self._address or self._address.startswith("unix://")

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> DockerChannel:
        """See Engine.start."""
        try:
            container_id = self._create(spec, deadline)
        except ImageMissing:
            if not self._pull_missing_image:
                raise
            self._api.pull(spec.image)
            deadline = Deadline(_START_SECONDS)
            container_id = self._create(spec, deadline)
        try:
            attached = self._api.call(deadline, "attach_socket", container_id, _ATTACH)
        except EngineError:
            remove_container(self._api, container_id)
            raise
        channel = self._channel_class(self._api, container_id, attached)
        try:
            if cancel.is_set():
                raise ChannelClosed("The run was stopped on request.")
            channel.start(deadline)
        except BaseException:
            channel.close()
            raise
        return channel

    def _create(self, spec: SandboxSpec, deadline: Deadline) -> str:
        config = self._config(spec)
        try:
            made = self._api.call(deadline, "create_container_from_config", config)
        except ImageMissing as error:
            # The host of a registry is nobody's business in a chat.
            name = spec.image.rpartition("/")[2]
            advice = f"It is called {name}: an administrator should get it"
            if name == spec.image:
                advice += f" with {self._image_command(name)}"
            advice += " (docs/setup.md, “The sandbox image”); then try again."
            raise ImageMissing(f"{error} {advice}", error.detail) from error
        return str(made["Id"])

    def _image_command(self, image: str) -> str:
        if "/" in image:
            return f"{self.program} pull {image}"
        folder = "full" if image.startswith("run-code-full") else "python"
        return f"{self.program} build -t {image} images/{folder}"

    def _config(self, spec: SandboxSpec) -> dict[str, Any]:
        labels = {
            LABEL_OWNER: spec.owner,
            LABEL_RUN: spec.run_id,
            LABEL_EXPIRES: str(int(spec.expires_at)),
        }
        return container_config(
            spec.image,
            spec.runtime,
            spec.argv,
            spec.limits,
            labels,
            warm=bool(spec.waiting),
            data_folders=spec.data_folders,
            network=spec.network,
            packages_mib=spec.packages_mib,
        )

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route."""
        return self._routes.open(way, mode, run_id, owner, expires_at, deadline)

    def close_route(self, route: Route) -> None:
        """See Engine.close_route."""
        self._routes.close(route)

    def leftovers(self) -> list[Lease]:
        """See Engine.leftovers."""
        listed = self._api.call(
            Deadline(_LIST_SECONDS),
            "containers",
            all=True,
            filters={"label": LABEL_OWNER},
        )
        sandboxes = [_lease_of(entry) for entry in listed]
        return [*sandboxes, *self._network_leases()]

    def _network_leases(self) -> list[Lease]:
        return self._routes.leftovers()

    def remove(self, lease: Lease) -> None:
        """See Engine.remove. Raises EngineError when it may still be there."""
        if lease.is_network:
            self._routes.remove(lease)
            return
        report = remove_container(self._api, lease.sandbox_id)
        if report.may_linger:
            raise EngineError(
                "A left-over sandbox could not be removed.", report.detail
            )

    def image_id(self, deadline: Deadline) -> str:
        """See Engine.image_id."""
        try:  # listing the images would cost the daemon 75 ms, and runs wait for this
            return str(self._api.call(deadline, "inspect_image", self._image)["Id"])
        except ImageMissing:
            return ""

    def check(self, deadline: Deadline) -> list[Finding]:
        """See Engine.check."""
        try:
            info = self._api.call(deadline, "info")
            image = self.image_id(deadline)
        except EngineError as error:
            mend = (
                f"{self.start_command}   # or set DOCKER_HOST / the valve docker_host"
            )
            return [Finding("engine", False, str(error), mend)]
        answers = f"{self.title} {info.get('ServerVersion')} answers."
        return [
            *(machine_obstacles(read_machine()) if self.is_here else []),
            Finding("engine", True, answers),
            self._check_runtime(info),
            self._check_image(bool(image)),
            *self._check_limits(info),
        ]

    def _check_limits(self, info: dict[str, Any]) -> list[Finding]:
        """What an engine says of the limits around a sandbox that it cannot hold; Docker
        refuses to start such a one."""
        return []

    def _check_runtime(self, info: dict[str, Any]) -> Finding:
        if self._runtime in (info.get("Runtimes") or {}):
            text = f"The runtime {self._runtime} is registered."
            return Finding("runtime", True, text)
        if info.get("OperatingSystem") == _DOCKER_DESKTOP:
            text = (
                "This is Docker Desktop, whose engine is in a machine without gVisor."
            )
            mend = (
                "use a Docker Engine on Linux (docs/setup.md, “Other systems”), and set "
                "DOCKER_HOST"
            )
            return Finding("runtime", False, text, mend)
        text = (
            f"{self.title} does not know the runtime {self._runtime}, so code cannot be "
            "isolated."
        )
        return Finding("runtime", False, text, self._mend_for_runtime())

    def _mend_for_runtime(self) -> str:
        restart = (
            restart_docker_command(read_machine())
            if self.is_here
            else "restart Docker there"
        )
        return f"sudo runsc install && {restart}"

    def _check_image(self, there: bool) -> Finding:
        if there:
            return Finding("image", True, f"The image {self._image} is there.")
        text = f"The image {self._image} is not on this host."
        command = self._image_command(self._image)
        mend = f"{command}   # or: {self.program} load -i image.tar"
        return Finding("image", False, text, mend)


def _lease_of(entry: dict[str, Any]) -> Lease:
    labels = entry["Labels"]
    expires = labels.get(LABEL_EXPIRES, "")
    return Lease(
        sandbox_id=entry["Id"],
        run_id=labels.get(LABEL_RUN, ""),
        owner=labels[LABEL_OWNER],
        expires_at=float(expires) if expires.isdigit() else 0.0,
    )
