"""The embedded engine: gVisor's program on an OCI bundle, without any daemon.

One ``runsc run`` is one hardened, single-use sandbox. What Docker does for the other engine
is done here in four small modules: folders with leases (runsc_state), limits on the host's
side (runsc_walls), the root file system (runsc_images), and the pipes (runsc_channel).
"""

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

from sandbox_core.deadline import Deadline
from sandbox_core.egress import NO_ROUTES, EgressSettings, Route
from sandbox_core.engines.base import CancelToken, Finding, SandboxSpec
from sandbox_core.engines.machine import (
    machine_obstacles,
    read_machine,
    runsc_install_command,
)
from sandbox_core.engines.runsc_channel import RunscChannel
from sandbox_core.engines.runsc_errors import no_runsc
from sandbox_core.engines.runsc_images import ImageStore
from sandbox_core.engines.runsc_program import (
    OLDEST_RUNSC,
    find_runsc,
    is_privileged,
    release_of,
)
from sandbox_core.engines.runsc_state import (
    StateFolder,
    default_state_folder,
    end_processes,
    remove_folder,
)
from sandbox_core.engines.runsc_walls import (
    ControlGroups,
    HostLimits,
    MemoryWatch,
    Wall,
    some_processors,
)
from sandbox_core.errors import ChannelClosed, EngineError, InvalidRequest, StartFailed
from sandbox_core.hardening import (
    bundle_config,
    container_cpus,
    container_memory_bytes,
    host_threads,
    runsc_flags,
)
from sandbox_core.leases import Lease

__all__ = ["RunscEngine"]

_PLATFORMS = ("systrap", "ptrace", "kvm")


class RunscEngine:
    """Sandboxes from a runsc on this machine.

    ``runsc`` is its path, ``images_folder`` where prepared images are, ``state_folder`` where
    running sandboxes are kept; empty means the usual places. ``image`` is the one that
    check() looks for. Raises InvalidRequest for an unknown platform.
    """

    name = "runsc"
    is_here = True

    def __init__(
        self,
        image: str = "run-code-python:latest",
        runsc: str = "",
        images_folder: str = "",
        state_folder: str = "",
        platform: str = _PLATFORMS[0],
        control_groups: ControlGroups | None = None,
    ) -> None:
        if platform not in _PLATFORMS:
            known = ", ".join(_PLATFORMS)
            raise InvalidRequest(
                f"gVisor has no platform “{platform}”: choose one of {known}."
            )
        self._image = image
        self._runsc = runsc
        self._images = ImageStore(images_folder)
        self._state = StateFolder(
            Path(state_folder) if state_folder else default_state_folder()
        )
        self._platform = platform
        self._groups = control_groups or ControlGroups()
        self._privileged = is_privileged()
        self._controllers = (
            self._groups.controllers() if self._privileged else frozenset()
        )

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> RunscChannel:
        """See Engine.start."""
        runsc = find_runsc(self._runsc)
        image = self._images.open(spec.image)
        if cancel.is_set():
            raise ChannelClosed("The run was stopped on request.")
        folder = self._state.make(spec)
        with ExitStack() as undo:
            undo.callback(remove_folder, folder)
            wall = self._wall(folder, spec)
            undo.callback(wall.remove)
            config = bundle_config(
                str(image.root),
                spec.argv,
                image.env,
                spec.limits,
                wall.cgroup,
                spec.data_folders,
                spec.packages_mib,
            )
            try:
                (folder / "config.json").write_text(json.dumps(config))
                process = self._launch(runsc, folder, wall, spec.limits.cpus)
            except OSError as error:
                raise no_runsc(repr(error)) from error
            undo.pop_all()
        channel = RunscChannel(process, folder, wall)
        if cancel.is_set():
            channel.close()
            raise ChannelClosed("The run was stopped on request.")
        return channel

    def _wall(self, folder: Path, spec: SandboxSpec) -> Wall:
        limits = HostLimits(
            container_memory_bytes(spec.limits, bool(spec.waiting), spec.packages_mib),
            host_threads(spec.limits),
            container_cpus(spec.limits),
        )
        if "memory" not in self._controllers:
            return MemoryWatch(folder, limits)
        group = self._groups.named(folder.name)
        try:
            group.set_limits(limits, self._controllers)
            return group
        except OSError as error:
            group.remove()
            raise StartFailed(
                "The limits of the sandbox could not be set, so nothing was run. An "
                "administrator should run the doctor (docs/setup.md).",
                repr(error),
            ) from error

    def _launch(
        self, runsc: str, folder: Path, wall: Wall, cpus: float
    ) -> subprocess.Popen[bytes]:
        flags = runsc_flags(self._platform, not self._privileged, bool(wall.cgroup))
        command = [runsc, f"--root={folder}/root", *flags]
        command += ["run", f"--bundle={folder}", folder.name]
        with ExitStack() as around:
            if "cpu" not in self._controllers:
                around.enter_context(some_processors(cpus))
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A signal for our terminal's programs is none for the sandbox.
                start_new_session=True,
                # Nothing of the server's environment, which may hold secrets.
                env={},
                cwd="/",
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
        """See Engine.open_route: there is none here."""
        raise EngineError(NO_ROUTES)

    def close_route(self, route: Route) -> None:
        """See Engine.close_route: nothing can be there."""

    def leftovers(self) -> list[Lease]:
        """See Engine.leftovers."""
        return self._state.leases()

    def remove(self, lease: Lease) -> None:
        """See Engine.remove. Raises EngineError when it may still be there."""
        folder = self._state.folder_of(lease.sandbox_id)
        if not end_processes(folder):
            raise EngineError("A left-over sandbox could not be removed.", str(folder))
        self._groups.named(folder.name).remove()
        remove_folder(folder)

    def image_id(self, deadline: Deadline) -> str:
        """See Engine.image_id: here the folder's name and the time of its making."""
        return self._images.identity(self._image)

    def check(self, deadline: Deadline) -> list[Finding]:
        """See Engine.check."""
        machine = read_machine()
        findings = machine_obstacles(machine, rootless=not self._privileged)
        mend = runsc_install_command(machine)
        try:
            runsc = find_runsc(self._runsc)
            release = release_of(runsc, deadline)
        except EngineError as error:
            return [*findings, Finding("engine", False, str(error), mend)]
        if release < OLDEST_RUNSC:
            text = f"{runsc} is too old or no runsc: its release is {release or 'unknown'}."
            return [*findings, Finding("engine", False, text, mend)]
        findings.append(Finding("engine", True, f"{runsc} has release {release}."))
        findings.append(self._images.check(self._image))
        findings.append(Finding("limits", True, self.limits_in_force()))
        return findings

    def limits_in_force(self) -> str:
        """In words, what holds memory, threads and processors of a sandbox on this host."""
        group = self._groups.version
        watch = "a watch of ours, every 30 ms"
        by = {
            "memory": group if "memory" in self._controllers else watch,
            "threads": group if "pids" in self._controllers else watch,
            "processors": (
                group if "cpu" in self._controllers else "whole processors only"
            ),
        }
        told = ", ".join(f"{name}: {what}" for name, what in by.items())
        return f"Around the sandbox stand, {told}; inside, the guest's own limits."
