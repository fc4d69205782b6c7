"""A local runner that gives each run the network that it may have: packages before its program,
a way out during it, or nothing at all."""

import logging
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace

from sandbox_core.data_folders import DataFolders
from sandbox_core.deadline import Deadline
from sandbox_core.egress import (
    NETWORK,
    NO_NETWORK,
    EgressSettings,
    Route,
    lower_mode,
    reaches_out,
)
from sandbox_core.engines.base import CancelToken, Engine, SandboxSpec
from sandbox_core.errors import EngineError, SandboxError
from sandbox_core.installer import InstallSettings
from sandbox_core.installing_runner import InstallingRunner
from sandbox_core.models import OnEvent, RunRequest, RunResult
from sandbox_core.outcome import Outcome
from sandbox_core.pool import PoolSettings
from sandbox_core.runner import Placement

__all__ = ["NetworkRunner", "NetworkSettings"]

_network_log = logging.getLogger("run_code.network")
_ROUTE_SECONDS = 15.0
_NO_WAY = (
    "No proxy is named for the mode {mode}, so nothing was run. An administrator should set "
    "it up (docs/network.md)."
)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """``mode`` is one of NETWORK_MODES and the most that any run gets; ``installs`` and
    ``egress`` say how, where the mode needs it."""

    mode: str = NO_NETWORK
    installs: InstallSettings | None = None
    egress: EgressSettings | None = None


class NetworkRunner(InstallingRunner):
    """As LocalRunner. A request may ask for less than the settings allow, never for more."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        runtime: str = "runsc",
        network: NetworkSettings | None = None,
        pool: PoolSettings | None = None,
        data_folders: DataFolders | None = None,
    ) -> None:
        self._network = network or NetworkSettings()
        installs = self._network.installs
        super().__init__(engine, image, runtime, installs, pool, data_folders)

    @property
    def mode(self) -> str:
        """The most that any run gets."""
        return self._network.mode

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        mode = lower_mode(self._network.mode, request.network)
        result = super().run(replace(request, network=mode), on_event, cancel)
        return replace(result, evidence={**result.evidence, NETWORK: mode})

    def run_placed(
        self,
        request: RunRequest,
        placement: Placement,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """See LocalRunner.run_placed."""
        spec = placement.spec
        if spec.network or not reaches_out(request.network):
            return super().run_placed(request, placement, on_event, cancel)
        started = time.monotonic()
        try:
            route, runtime = self._open_route(request, spec)
        except SandboxError as problem:
            _network_log.error("run %s: %s (%s)", spec.run_id, problem, problem.detail)
            seconds = time.monotonic() - started
            return RunResult(
                request.run_id,
                Outcome.SANDBOX_ERROR,
                str(problem),
                total_seconds=seconds,
            )
        spec = replace(spec, network=route.network, proxy=route.proxy, runtime=runtime)
        try:
            placement = replace(placement, spec=spec)
            return super().run_placed(request, placement, on_event, cancel)
        finally:
            future = self._disposer.submit(self._engine.close_route, route)
            future.add_done_callback(_log_failed_close)

    def _open_route(self, request: RunRequest, spec: SandboxSpec) -> tuple[Route, str]:
        way = self._network.egress
        if way is None:
            raise EngineError(_NO_WAY.format(mode=request.network))
        route = self._engine.open_route(
            way,
            request.network,
            spec.run_id,
            spec.owner,
            spec.expires_at,
            Deadline(_ROUTE_SECONDS),
        )
        return route, way.runtime


def _log_failed_close(future: Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _network_log.error("a network of a run could not be removed: %r", error)
