"""A local runner that installs what a run asks for, before its first step and beside its time."""

import logging
import time
from dataclasses import replace

from sandbox_core.archive import plan_files
from sandbox_core.data_folders import DataFolders
from sandbox_core.deadline import Deadline
from sandbox_core.egress import NO_NETWORK
from sandbox_core.engines.base import CancelToken, Engine
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
from sandbox_core.runner import LocalRunner

__all__ = ["InstallingRunner"]

_install_log = logging.getLogger("run_code.install")
_IMAGE_SECONDS = 5.0
_NOTHING = Step(BASH.name, ":\n")


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
        try:
            wanted = self._gather(request)
            if self._installer is None or not wanted.packages:
                return self._marked(super().run(wanted, on_event, cancel), request)
            archive = self._installer.install(wanted.packages, cancel)
        except (InstallFailed, InvalidRequest) as problem:
            return _not_installed(request, problem, cancel, started)
        result = self._run_with(archive, wanted, on_event, cancel)
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
        super().close()

    def _run_with(
        self,
        archive: Archive,
        request: RunRequest,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """Run a request whose packages are installed; steps that did nothing else are over."""
        skipped = _empty_steps(request)
        short = replace(request, steps=request.steps[skipped:] or (_NOTHING,))
        spec = self.spec_for(request)
        packages = None
        content = archive.opened()
        if content is not None and self._installs is not None:
            packages = InputFile("packages", content=content)
            # The archive is there until it is unpacked.
            spec = replace(spec, packages_mib=2 * self._installs.size_mib)
        try:
            result = self.run_placed(short, spec, packages, on_event, cancel)
        finally:
            if content is not None:
                content.close()
        if result.failed_step is not None:
            result = replace(result, failed_step=result.failed_step + skipped)
        names = ", ".join(archive.names)
        notes = (f"Installed for this run: {names}.",) if names else ()
        return replace(result, notes=(*notes, *result.notes))

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
        return self.run_placed(request, spec, None, None, cancel)

    def _image_id(self) -> str:
        return self._engine.image_id(Deadline(_IMAGE_SECONDS)) or self._image


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
