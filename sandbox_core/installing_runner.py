"""A local runner that installs what a run asks for, before its first step and beside its time.

The sandbox of the program boots meanwhile: it is a cold one, whose start would be waited for.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from sandbox_core.archive import plan_files
from sandbox_core.boot import BootedSandbox
from sandbox_core.data_folders import DataFolders
from sandbox_core.deadline import Deadline
from sandbox_core.egress import NO_NETWORK, reaches_out
from sandbox_core.engines.base import CancelToken, Engine, SandboxSpec
from sandbox_core.errors import InvalidRequest, SandboxError
from sandbox_core.hints import PACKAGES_ON
from sandbox_core.installer import (
    PACKAGES_OFF,
    Archive,
    Installer,
    InstallFailed,
    InstallSettings,
)
from sandbox_core.languages_interpreted import BASH
from sandbox_core.models import InputFile, OnEvent, RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.pool import PoolSettings
from sandbox_core.requirements import gather_packages
from sandbox_core.runner import LocalRunner, Placement

__all__ = ["InstallingRunner"]

_install_log = logging.getLogger("run_code.install")
_IMAGE_SECONDS = 5.0
_NOTHING = Step(BASH.name, ":\n")
_BOOTS = 8  # at one time; one more waits, and boots late


class InstallingRunner(LocalRunner):
    """As LocalRunner. Without ``installs`` a request for packages fails with a sentence, and
    nothing is looked for in its code."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        runtime: str = "runsc",
        installs: InstallSettings | None = None,
        pool: PoolSettings | None = None,
        data_folders: DataFolders | None = None,
    ) -> None:
        super().__init__(engine, image, runtime, None, pool, data_folders)
        self._installs = installs
        self._installer = (
            Installer(installs, self._run_installer, self._image_id)
            if installs
            else None
        )
        self._booter = ThreadPoolExecutor(_BOOTS, "run-code-boot")

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        plan_files(request)
        cancel = cancel or CancelToken()
        started = time.monotonic()
        booting: Future[BootedSandbox] | None = None
        try:
            wanted = self._gather(request)
            if self._installer is None or not wanted.packages:
                return self._marked(super().run(wanted, on_event, cancel), request)
            missing = self._installer.missing(wanted.packages, cancel)
            archive = self._installer.kept(missing)
            if archive is None:
                booting = self._boot_ahead(wanted, cancel)
                archive = self._installer.fetch(missing, cancel)
        except (InstallFailed, InvalidRequest) as problem:
            _discard(booting)
            return _not_installed(request, problem, cancel, started)
        result = self._run_with(archive, booting, wanted, on_event, cancel)
        result = replace(result, total_seconds=time.monotonic() - started)
        return self._marked(result, request)

    def _marked(self, result: RunResult, request: RunRequest) -> RunResult:
        """With a word on packages, for whoever gives advice."""
        if not self._may_install(request):
            return result
        return replace(result, evidence={**result.evidence, PACKAGES_ON: "yes"})

    def close(self) -> None:
        """See Runner.close."""
        if self._installer is not None:
            self._installer.close()
        self._booter.shutdown(wait=True)
        super().close()

    def _boot_ahead(
        self, request: RunRequest, cancel: CancelToken
    ) -> Future[BootedSandbox] | None:
        """Start the sandbox of a program whose packages are not there yet."""
        if self._installer is None or reaches_out(request.network):
            return None  # with a network, its route comes first
        spec = self._spec_with_packages(request)
        waits = self._budgets.lease_seconds(self._installer.limits)
        spec = replace(spec, expires_at=spec.expires_at + waits)
        return self._booter.submit(self.boot, spec, cancel)

    def _run_with(
        self,
        archive: Archive,
        booting: Future[BootedSandbox] | None,
        request: RunRequest,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """Run a request whose packages are installed; steps that did nothing else are over."""
        skipped = _empty_steps(request)
        short = replace(request, steps=request.steps[skipped:] or (_NOTHING,))
        content = archive.opened()
        if content is None:
            _discard(booting)
            place = Placement(self.spec_for(request))
        else:
            packages = InputFile("packages", content=content)
            spec = self._spec_with_packages(request)
            place = Placement(spec, packages, _booted(booting))
        try:
            result = self.run_placed(short, place, on_event, cancel)
        finally:
            if content is not None:
                content.close()
        if result.failed_step is not None:
            result = replace(result, failed_step=result.failed_step + skipped)
        names = ", ".join(archive.names)
        notes = (f"Installed for this run: {names}.",) if names else ()
        return replace(result, notes=(*notes, *result.notes))

    def _spec_with_packages(self, request: RunRequest) -> SandboxSpec:
        """The usual sandbox with a folder for packages."""
        spec = self.spec_for(request)
        if self._installs is None:
            return spec
        # The archive is there until it is unpacked.
        return replace(spec, packages_mib=2 * self._installs.size_mib)

    def _may_install(self, request: RunRequest) -> bool:
        return self._installer is not None and request.network != NO_NETWORK

    def _gather(self, request: RunRequest) -> RunRequest:
        if self._may_install(request):
            return gather_packages(request)
        if request.packages:
            raise InvalidRequest(PACKAGES_OFF)
        return request

    def _run_installer(
        self, request: RunRequest, with_network: bool, cancel: CancelToken
    ) -> RunResult:
        spec = self.spec_for(request)
        if with_network and self._installs is not None:
            spec = replace(
                spec, network=self._installs.network, runtime=self._installs.runtime
            )
        return self.run_placed(request, Placement(spec), None, cancel)

    def _image_id(self) -> str:
        return self._engine.image_id(Deadline(_IMAGE_SECONDS)) or self._image


def _booted(booting: Future[BootedSandbox] | None) -> BootedSandbox | None:
    """The sandbox; None when it did not start: the run starts one, and tells if it cannot."""
    try:
        return booting.result() if booting else None
    except SandboxError as error:
        _install_log.info("a sandbox could not be started ahead: %s", error)
        return None


def _discard(booting: Future[BootedSandbox] | None) -> None:
    """Nobody needs this sandbox; it may not even be there yet."""
    if booting is not None:
        booting.add_done_callback(_close_booted)


def _close_booted(booting: Future[BootedSandbox]) -> None:
    if booting.exception() is None:
        booting.result().channel.close()


def _empty_steps(request: RunRequest) -> int:
    """How many steps at the beginning have nothing left to run."""
    count = 0
    for step in request.steps:
        lines = (line.strip() for line in step.code.split("\n"))
        if any(line and not line.startswith("#") for line in lines):
            break
        count += 1
    return count


def _not_installed(
    request: RunRequest, problem: SandboxError, cancel: CancelToken, started: float
) -> RunResult:
    """The result of a run that ended before its first step."""
    seconds = time.monotonic() - started
    if cancel.is_set():
        message = "The run was stopped on request."
        return RunResult(
            request.run_id, Outcome.CANCELLED, message, total_seconds=seconds
        )
    _install_log.info("run %s: %s (%s)", request.run_id, problem, problem.detail)
    return RunResult(
        request.run_id,
        Outcome.FAILED,
        str(problem),
        exit_code=1,
        failed_step=0,
        total_seconds=seconds,
    )
