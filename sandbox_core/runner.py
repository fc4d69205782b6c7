"""Runs requests: the one place that knows the order of things, the budgets and the ladder
from asking a sandbox to end to ending it.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

from sandbox_core.archive import InputPlan, plan_files
from sandbox_core.boot import BootedSandbox, boot_sandbox
from sandbox_core.data_folders import DataFolders
from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, Channel, Engine, SandboxSpec
from sandbox_core.errors import ChannelClosed, SandboxError, StartFailed
from sandbox_core.event_feed import EventFeed
from sandbox_core.job import compile_budget, interpreter_for, job_frames
from sandbox_core.leases import current_owner
from sandbox_core.limits import Limits
from sandbox_core.models import InputFile, OnEvent, RunRequest, RunResult
from sandbox_core.outcome import Evidence
from sandbox_core.pool import PoolSettings, PoolStats, WarmPool
from sandbox_core.protocol import (
    FrameReader,
    bootstrap_argv,
    encode_frame,
    joined_frames,
)
from sandbox_core.recorder import Recorder

__all__ = ["Budgets", "LocalRunner", "Placement", "Runner"]

_LOG = logging.getLogger("run_code.runner")
_POLL_SECONDS = 0.1
_BYTES_PER_SECOND = 5 << 20
_DISPOSERS = 4
# To remove a sandbox and to boot the next takes all that a small machine has. So long a result
# has to get to whoever waits for it.
_HANDOVER_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Budgets:
    """Seconds for each phase of a run; tests set them lower.

    ``transfer`` is what an upload or download may take on top of its bytes at 5 MB/s;
    ``overtime`` is how long after the program's limit the guest may still be heard of;
    ``farewell`` is how long a cancelled run may take to hand over what it has.
    """

    start: float = 15.0
    transfer: float = 10.0
    overtime: float = 2.0
    collection: float = 5.0
    farewell: float = 1.0

    def lease_seconds(self, limits: Limits, compiling: float = 0.0) -> float:
        """After this time a run with these limits is over, whatever happened; ``compiling`` is
        what its compilers may take."""
        transfers = self.transfer + (limits.work_mib << 20) / _BYTES_PER_SECOND
        rest = limits.seconds + compiling + self.overtime + self.collection
        return self.start + 2 * transfers + rest


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request runs: in a sandbox of this spec, with an archive of packages if there is
    one. ``booted`` is one that was started for it already."""

    spec: SandboxSpec
    packages: InputFile | None = None
    booted: BootedSandbox | None = None


class Runner(Protocol):
    """Whatever can run a request: a local engine, or a service over HTTP."""

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """Run to the end and return the result, also of a failure; never raises for what a
        sandbox or an engine does. Raises InvalidRequest when the request breaks a rule.
        """

    def close(self) -> None:
        """End what is left of finished runs. Called once, when no run is under way."""


class LocalRunner:
    """Runs each request in a fresh sandbox of an engine, in the calling thread."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        runtime: str = "runsc",
        budgets: Budgets | None = None,
        pool: PoolSettings | None = None,
        data_folders: DataFolders | None = None,
    ) -> None:
        self._engine = engine
        self._data_folders = data_folders or DataFolders()
        self._pool = WarmPool(engine, pool or PoolSettings(size=0))
        self._image = image
        self._runtime = runtime
        self._budgets = budgets or Budgets()
        # A result need not wait until its container is removed (about 0.1 s).
        self._disposer = ThreadPoolExecutor(_DISPOSERS, "run-code-dispose")
        self._closing = threading.Event()

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        started = time.monotonic()
        placement = Placement(self.spec_for(request))
        result = self.run_placed(request, placement, on_event, cancel or CancelToken())
        return replace(result, total_seconds=time.monotonic() - started)

    def run_placed(
        self,
        request: RunRequest,
        placement: Placement,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """Run to the end in this place. Raises as run does."""
        plan = plan_files(request)
        spec, booted = placement.spec, placement.booted
        is_usual = not (spec.network or spec.packages_mib)
        feed = EventFeed(on_event)
        session = _Session(
            request, plan, feed, cancel, self._budgets, placement.packages
        )
        self._pool.begin_run()
        try:
            if booted is None and is_usual:
                booted = self._pool.take(spec, interpreter_for(request))
            return session.run(self._engine, spec, booted)
        finally:
            feed.close()
            try:
                self._disposer.submit(self._clear_up, session.channels)
            except RuntimeError:  # closed during the run
                self._clear_up(session.channels)

    def close_pool(self) -> None:
        """Throw away the idle sandboxes; runs go on, and start cold from now on."""
        self._pool.close()

    def close(self) -> None:
        """See Runner.close."""
        self._closing.set()
        self._pool.close()
        self._disposer.shutdown(wait=True)

    def prepare(self, request: RunRequest) -> bool:
        """Have a warm sandbox made for requests like this one; True if one is ready."""
        return self._pool.want(self.spec_for(request), interpreter_for(request))

    def pool_stats(self) -> PoolStats:
        """How the pool of warm sandboxes has done so far."""
        return self._pool.stats()

    def spec_for(self, request: RunRequest) -> SandboxSpec:
        """The usual sandbox for a request."""
        lease = self._budgets.lease_seconds(request.limits, compile_budget(request))
        return SandboxSpec(
            image=self._image,
            runtime=self._runtime,
            limits=request.limits,
            run_id=request.run_id,
            owner=current_owner(),
            expires_at=time.time() + lease,
            argv=tuple(bootstrap_argv()),
            data_folders=self._data_folders.checked(),
        )

    def boot(self, spec: SandboxSpec, cancel: CancelToken) -> BootedSandbox:
        """A sandbox of this spec, for a later run_placed. Raises as boot_sandbox does."""
        return boot_sandbox(self._engine, spec, cancel, Deadline(self._budgets.start))

    def _clear_up(self, channels: Sequence[Channel]) -> None:
        """Remove the sandboxes of an ended run, and let the pool make new ones."""
        self._closing.wait(_HANDOVER_SECONDS)
        for channel in channels:
            try:
                channel.close()
            except Exception as error:
                _LOG.error("a sandbox could not be removed: %r", error)
        self._pool.end_run()


class _Session:
    """One run of one request, from start to result."""

    def __init__(
        self,
        request: RunRequest,
        plan: InputPlan,
        feed: EventFeed,
        cancel: CancelToken,
        budgets: Budgets,
        packages: InputFile | None = None,
    ) -> None:
        self._packages = packages
        self.channels: list[Channel] = []
        self._request = request
        self._plan = plan
        self._cancel = cancel
        self._budgets = budgets
        self._feed = feed
        self._reader = FrameReader()
        self._recorder = Recorder(request, feed)
        self._timed_out = False
        self._farewell: Deadline | None = None

    @property
    def _channel(self) -> Channel | None:
        return self.channels[-1] if self.channels else None

    def run(
        self, engine: Engine, spec: SandboxSpec, booted: BootedSandbox | None
    ) -> RunResult:
        """Go through the phases; whatever goes wrong ends in the result."""
        error = ""
        facts = {"engine": engine.name, "image": spec.image, "runtime": spec.runtime}
        try:
            sandbox = self._hand_over(engine, spec, booted)
            facts["warm"] = "yes" if sandbox.waiting else "no"
            self._follow()
        except SandboxError as problem:
            if not self._cancel.is_set():
                error = self._explain(problem)
        return self._recorder.result(self._host_evidence(error), facts)

    def _hand_over(
        self, engine: Engine, spec: SandboxSpec, booted: BootedSandbox | None
    ) -> BootedSandbox:
        """Give the job to the booted sandbox, or else to one that is started for it. Returns
        the one in which a program has started."""
        if booted is not None:
            try:
                self._give_job(booted)
                return booted
            except ChannelClosed:
                if self._recorder.started or self._cancel.is_set():
                    raise
                _LOG.info("run %s: its booted sandbox was dead", spec.run_id)
        cold = boot_sandbox(engine, spec, self._cancel, Deadline(self._budgets.start))
        self._give_job(cold)
        return cold

    def _give_job(self, sandbox: BootedSandbox) -> None:
        channel = sandbox.channel
        self.channels.append(channel)
        self._reader = sandbox.reader
        self._recorder = Recorder(self._request, self._feed)
        self._recorder.take("h", sandbox.hello)
        size = sum(file.size for file in self._plan.files)
        size += len(self._request.stdin)
        size += self._packages.size if self._packages else 0
        upload = Deadline(self._budgets.transfer + size / _BYTES_PER_SECOND)
        lease_seconds = self._budgets.lease_seconds(
            self._request.limits, compile_budget(self._request)
        )
        frames = job_frames(
            self._request, self._plan, lease_seconds, sandbox.waiting, self._packages
        )
        for data in joined_frames(frames):
            if self._cancel.is_set():
                raise ChannelClosed("The run was stopped on request.")
            channel.send(data, upload)
        self._read_until(lambda: self._recorder.started or self._recorder.done, upload)

    def _follow(self) -> None:
        """From the start of the program to ``done``."""
        budgets, limits = self._budgets, self._request.limits
        compiling = compile_budget(self._request)
        program = Deadline(compiling + limits.seconds + budgets.overtime)
        if not self._read_until(
            lambda: self._recorder.program_over, program, late_is_error=False
        ):
            self._timed_out = True
            return
        rest = budgets.collection + budgets.transfer
        rest += (limits.work_mib << 20) / _BYTES_PER_SECOND
        self._read_until(lambda: self._recorder.done, Deadline(rest))

    def _read_until(
        self,
        reached: Callable[[], bool],
        deadline: Deadline,
        late_is_error: bool = True,
    ) -> bool:
        """Drain the channel until a milestone. Returns False when the time is up instead.

        Raises StartFailed when late_is_error, ChannelClosed at the end of the stream or of
        the farewell of a cancelled run, ProtocolError when the sandbox breaks the rules.
        """
        channel = self._channel
        while channel is not None and not reached():
            self._say_farewell(channel)
            if deadline.passed():
                if late_is_error:
                    raise StartFailed("The sandbox did not answer in time. Try again.")
                return False
            untrusted_data = channel.recv(min(_POLL_SECONDS, deadline.remaining()))
            if untrusted_data == b"":
                raise ChannelClosed(
                    "The sandbox ended unexpectedly. Try again; if it stays, tell your "
                    "administrator."
                )
            for kind, untrusted_payload in self._reader.feed(untrusted_data or b""):
                self._recorder.take(kind, untrusted_payload)
        return True

    def _say_farewell(self, channel: Channel) -> None:
        """When cancelled: ask the guest once to end and hand over, then lose patience."""
        if not self._cancel.is_set():
            return
        if self._farewell is None:
            self._farewell = Deadline(self._budgets.farewell)
            channel.send(encode_frame("C"), self._farewell)
        elif self._farewell.passed():
            raise ChannelClosed("The run was stopped on request.")

    def _explain(self, problem: SandboxError) -> str:
        problem.run_id = self._request.run_id
        level = logging.INFO if isinstance(problem, ChannelClosed) else logging.ERROR
        _LOG.log(level, "run %s: %s (%s)", problem.run_id, problem, problem.detail)
        return str(problem)

    def _host_evidence(self, error: str) -> Evidence:
        """What the host saw. A dead sandbox is looked into: its memory may have run out."""
        oom = False
        ended = None
        broken = error or self._timed_out
        channel = self._channel
        if channel is not None and broken:
            channel.kill()
        if channel is not None and (broken or self._recorder.ended_suspiciously):
            ended = channel.ended(Deadline(self._budgets.overtime))
            oom = bool(ended.oom)
        if ended is not None and ended.untrusted_diagnostics:
            _LOG.warning(
                "run %s: the sandbox said %r",
                self._request.run_id,
                ended.untrusted_diagnostics,
            )
        return Evidence(
            error="" if oom else error,
            cancelled=self._cancel.is_set(),
            timed_out=self._timed_out,
            oom=oom,
        )
