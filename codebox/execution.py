"""Runs under way: who may start, in which thread they work, and how they are ended."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from codebox.counters import CountersLost
from codebox.metrics import Metrics
from codebox.settings import Settings
from codebox.slots import NoSlots, RedisSlots
from sandbox_core.admission import Admission, Busy, Turn
from sandbox_core.archive import plan_files
from sandbox_core.audit import audit_record, write_audit_line
from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import InvalidRequest, SandboxError
from sandbox_core.languages import language_named
from sandbox_core.models import OnEvent, RunRequest, RunResult
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner

__all__ = ["Execution", "Ticket"]

_log = logging.getLogger("codebox.execution")
_END_SECONDS = 10.0
_IMAGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """A run that waits or works. ``task`` gives its result, and never fails."""

    request: RunRequest
    task: asyncio.Task[RunResult]
    cancel: CancelToken

    async def result(self) -> RunResult:
        """Wait for the result. Whoever is cancelled while waiting cancels the run."""
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            self.cancel.cancel()
            raise


@dataclass(frozen=True, slots=True)
class _Job:
    """What a run needs on its way from the queue to its thread."""

    request: RunRequest
    runner: LocalRunner
    on_event: OnEvent | None
    cancel: CancelToken
    turn: Turn


class Execution:
    """Takes requests and runs them, in threads of its own, within the caps.

    ``make_runner`` gives a runner for the name of an image, ``image_id`` its digest; both
    are called in threads.
    """

    def __init__(
        self,
        settings: Settings,
        make_runner: Callable[[str], LocalRunner],
        image_id: Callable[[str], str],
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._make_runner = make_runner
        self._image_id = image_id
        self._metrics = metrics
        self._runners: dict[str, LocalRunner] = {}
        self._admission = Admission(
            settings.max_concurrent,
            settings.max_concurrent_per_user,
            settings.max_waiting,
            settings.max_waiting_per_user,
        )
        shared = settings.storage_url != "memory://"
        self._slots: RedisSlots | NoSlots = (
            RedisSlots(settings) if shared else NoSlots()
        )
        # Never the loop's own executor, which serves everything else.
        self._executor = ThreadPoolExecutor(settings.max_concurrent + 2, "codebox-run")
        self._tickets: dict[str, Ticket] = {}
        # Name of an image → (until when it is believed, digest).
        self._image_ids: dict[str, tuple[float, str]] = {}
        self._draining = False
        metrics.watch_queue(self._admission.counts)
        metrics.watch_pool(self._count_ready)

    def start(
        self, request: RunRequest, on_event: OnEvent | None = None, image: str = ""
    ) -> Ticket:
        """Begin with a request, in ``image`` or in that of its language. Raises Busy when too
        many wait, InvalidRequest."""
        if self._draining:
            raise Busy("The code service is shutting down. Try again in a minute.")
        if request.run_id in self._tickets:
            raise InvalidRequest("There is a run with this id already.")
        plan_files(request)
        runner = self._runner_of(image or self._image_for(request))
        cancel = CancelToken()
        turn = self._admission.ask(request.user, cancel)
        job = _Job(request, runner, on_event, cancel, turn)
        task = asyncio.get_running_loop().create_task(self._work(job))
        ticket = self._tickets[request.run_id] = Ticket(request, task, cancel)
        task.add_done_callback(lambda _: self._tickets.pop(request.run_id))
        return ticket

    def stop(self, run_id: str, user: str) -> bool:
        """End a run of this user, who gets what it printed. False: there is no such run."""
        ticket = self._tickets.get(run_id)
        if ticket is None or ticket.request.user != user:
            return False
        ticket.cancel.cancel()
        return True

    def drain(self) -> None:
        """Take no new runs. Called when the service begins to shut down."""
        self._draining = True

    def stop_all(self) -> None:
        """End all runs, whose callers get what they printed, and take no new ones."""
        self.drain()
        for ticket in list(self._tickets.values()):
            ticket.cancel.cancel()

    async def close(self) -> None:
        """Leave no run, thread or sandbox behind. Called last."""
        self.stop_all()
        tasks = [ticket.task for ticket in self._tickets.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=_END_SECONDS)
        loop = asyncio.get_running_loop()
        for runner in self._runners.values():
            await loop.run_in_executor(None, runner.close)
        self._executor.shutdown(wait=False)
        await self._slots.close()

    def _count_ready(self) -> int:
        return sum(runner.pool_stats().idle for runner in self._runners.values())

    def _image_for(self, request: RunRequest) -> str:
        images = {
            self._settings.image_for(language_named(step.language).name)
            for step in request.steps
        }
        if len(images) > 1:
            raise InvalidRequest(
                "These languages have different sandboxes here: run them one by one."
            )
        return images.pop()

    def _runner_of(self, image: str) -> LocalRunner:
        if image not in self._runners:
            self._runners[image] = self._make_runner(image)
        return self._runners[image]

    async def _work(self, job: _Job) -> RunResult:
        request = job.request
        arrived = time.monotonic()
        try:
            result, waited = await self._run_admitted(job)
        except (SandboxError, CountersLost) as error:
            result = RunResult(request.run_id, Outcome.SANDBOX_ERROR, str(error))
            waited = time.monotonic() - arrived
        except Exception:
            _log.exception("run %s failed in the service itself", request.run_id)
            result = RunResult(
                request.run_id,
                Outcome.SANDBOX_ERROR,
                "The code service has a fault. Try again; if it stays, tell your administrator.",
            )
            waited = 0.0
        self._metrics.count_run(request, result, waited)
        ran = result.outcome is not Outcome.SANDBOX_ERROR
        image = result.evidence.get("image", "") if ran else ""
        facts = {
            "queued_seconds": round(waited, 3),
            "image_id": await self.known_image_id(image),
        }
        write_audit_line(
            audit_record(request, result, self._settings.audit_code, **facts)
        )
        return result

    async def _run_admitted(self, job: _Job) -> tuple[RunResult, float]:
        arrived = time.monotonic()
        async with contextlib.AsyncExitStack() as places:
            try:
                async with asyncio.timeout(self._settings.max_wait_seconds):
                    if not await self._enter(job, places):
                        return _stopped(job.request), time.monotonic() - arrived
            except TimeoutError:
                raise Busy(
                    "The run waited too long for its turn. Try again in a minute."
                ) from None
            waited = time.monotonic() - arrived
            future = asyncio.get_running_loop().run_in_executor(
                self._executor, job.runner.run, job.request, job.on_event, job.cancel
            )
            return await future, waited

    async def known_image_id(self, image: str) -> str:
        """The digest of an image, at most a minute old; empty when it cannot be told."""
        until, digest = self._image_ids.get(image, (0.0, ""))
        if image and until < time.monotonic():
            loop = asyncio.get_running_loop()
            with contextlib.suppress(SandboxError):
                digest = await loop.run_in_executor(
                    self._executor, self._image_id, image
                )
            self._image_ids[image] = (time.monotonic() + _IMAGE_SECONDS, digest)
        return digest

    async def _enter(self, job: _Job, places: contextlib.AsyncExitStack) -> bool:
        """Wait for a place here, and then for one among all replicas."""
        if not await self._admission.wait(job.turn):
            return False
        user = job.request.user
        places.callback(self._admission.leave, user)
        await places.enter_async_context(self._slots.hold(job.request.run_id, user))
        return not job.cancel.is_set()


def _stopped(request: RunRequest) -> RunResult:
    return RunResult(
        request.run_id, Outcome.CANCELLED, "The run was stopped on request."
    )
