"""One runtime per process, whatever Open WebUI does with the plugins' modules.

Open WebUI executes a plugin again at every save and forgets the old module, and Function and
Tool are two modules: each would make threads and a reaper of its own. So the runtimes hang on
one module object with a fixed name, made at the first use. Only plain values and callables
cross it, because each copy of the plugins has classes of its own.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from owui_plugin.backend import open_backend
from owui_plugin.settings import SharedSettings
from sandbox_core.admission import Admission
from sandbox_core.audit import audit_record, write_audit_line
from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import SandboxError
from sandbox_core.models import OnEvent, RunRequest, RunResult
from sandbox_core.outcome import Outcome
from sandbox_core.payload import BUILD_ID

__all__ = [
    "InFlight",
    "RunTicket",
    "claim",
    "keep_task",
    "process_board",
    "start_run",
]

_BOARD_NAME = "run_code_runtime"
_STOP_SECONDS = 3.0
_OUR_FAULT = (
    "Something went wrong in Run code itself, so there is no result. Try again; if it stays, "
    "tell your administrator: the reason is in the server's log."
)
_runtime_log = logging.getLogger("run_code.runtime")
_board_lock = threading.Lock()

Told = Callable[[], None]


class _Runtime:
    """Backend, threads and queue for one set of shared settings."""

    def __init__(self, shared: SharedSettings) -> None:
        self._backend = open_backend(shared)
        runs, per_user = self._backend.runs, self._backend.runs_per_user
        most = shared.max_waiting_runs
        # The other half of the queue is for other people.
        self._admission = Admission(runs, per_user, most, (most + 1) // 2)
        # Never the loop's own executor: file uploads of everybody wait in that one.
        self._executor = ThreadPoolExecutor(runs + 2, "run-code")
        self._backend.start()
        self._lock = threading.Lock()
        self._runs = 0
        self._retired = False

    def open_run(self) -> None:
        """A run is about to begin here: until close_run() the threads stay, even if the
        runtime is retired meanwhile."""
        with self._lock:
            self._runs += 1

    def close_run(self) -> None:
        """The run has ended."""
        with self._lock:
            self._runs -= 1
        self._end_if_unused()

    def retire(self) -> None:
        """No new runs will come. Those that have come end in their own time, those in the
        queue too, and the threads after them."""
        self._backend.stop()
        drain = self._backend.give_up_idle_sandboxes
        threading.Thread(target=drain, name="run-code-drain", daemon=True).start()
        with self._lock:
            self._retired = True
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        with self._lock:
            over = self._retired and not self._runs
        if over:
            threading.Thread(target=self._end, name="run-code-end", daemon=True).start()

    def _end(self) -> None:
        self._executor.shutdown(wait=True)  # a run that nobody waits for may be left
        self._backend.runner.close()

    async def run(
        self,
        plain_request: dict[str, Any],
        user: str,
        cancel: CancelToken,
        on_wait: Told,
        on_start: Told,
        on_event: OnEvent | None,
    ) -> dict[str, Any]:
        """A plain RunRequest to a plain RunResult. A refusal is a result too: the caller may
        be another copy of these modules, to which our exceptions mean nothing."""
        run_id = plain_request["run_id"]
        if refusal := self._backend.why_not():
            return _refused(run_id, refusal).to_plain()
        try:
            if self._admission.would_wait(user):
                on_wait()
            if not await self._admission.enter(user, cancel):
                return _stopped(run_id).to_plain()
            return await self._run_admitted(
                plain_request, user, cancel, on_start, on_event
            )
        except SandboxError as error:
            return _refused(run_id, str(error)).to_plain()
        except Exception:
            _runtime_log.exception("run %s failed by a fault of ours", run_id)
            return _refused(run_id, _OUR_FAULT).to_plain()

    async def _run_admitted(
        self,
        plain_request: dict[str, Any],
        user: str,
        cancel: CancelToken,
        on_start: Told,
        on_event: OnEvent | None,
    ) -> dict[str, Any]:
        try:
            on_start()
            work = self._executor.submit(
                self._run_in_thread, plain_request, cancel, on_event
            )
        except BaseException:
            self._admission.leave(user)
            raise
        # The place is free when the thread is, even if nobody waits for the result any more.
        work.add_done_callback(lambda _: self._admission.leave(user))
        return await asyncio.wrap_future(work)

    def _run_in_thread(
        self,
        plain_request: dict[str, Any],
        cancel: CancelToken,
        on_event: OnEvent | None,
    ) -> dict[str, Any]:
        request = RunRequest.from_plain(plain_request)
        result = self._backend.runner.run(request, on_event, cancel)
        if self._backend.is_local:
            write_audit_line(audit_record(request, result))
        return result.to_plain()


def process_board() -> Any:
    """The module that all copies of the plugins share: runtimes, users of them, in-flight runs."""
    with _board_lock:
        board: Any = sys.modules.get(_BOARD_NAME)
        if board is None:
            board = ModuleType(
                _BOARD_NAME, "What all copies of the Run code plugins share."
            )
            board.lock = threading.Lock()
            board.runtimes = {}
            board.keys = {}
            board.in_flight = {}
            board.tasks = set()
            board.recovered = False
            board = sys.modules.setdefault(_BOARD_NAME, board)
        return board


def _open_runtime(plugin: str, shared: SharedSettings) -> Any:
    """The runtime of these settings and this build, opened for one run. One that no plugin
    uses now is retired."""
    board = process_board()
    key = (BUILD_ID, *shared.key)
    with board.lock:
        if key not in board.runtimes:
            board.runtimes[key] = _Runtime(shared)
        board.keys[plugin] = key
        unused = set(board.runtimes) - set(board.keys.values())
        retired = [board.runtimes.pop(old) for old in unused]
        runtime = board.runtimes[key]
        runtime.open_run()
    for old_runtime in retired:
        old_runtime.retire()
    return runtime


class RunTicket:
    """A run under way, which may outlive the call that started it."""

    def __init__(
        self, run_id: str, task: asyncio.Task[dict[str, Any]], cancel: CancelToken
    ) -> None:
        self._run_id = run_id
        self._task = task
        self._cancel = cancel

    async def result(self) -> RunResult:
        """Wait for the result. A cancelled wait leaves the run alone: call stop() then."""
        return RunResult.from_plain(await asyncio.shield(self._task))

    async def stop(self) -> RunResult:
        """End the run, and give what it printed so far. Takes at most three seconds."""
        self._cancel.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
        if done and not self._task.cancelled() and self._task.exception() is None:
            return RunResult.from_plain(self._task.result())
        self._task.cancel()
        return _stopped(self._run_id)


def _refused(run_id: str, sentence: str) -> RunResult:
    return RunResult(run_id, Outcome.SANDBOX_ERROR, sentence)


def _stopped(run_id: str) -> RunResult:
    return RunResult(run_id, Outcome.CANCELLED, "The run was stopped on request.")


def start_run(
    plugin: str,
    shared: SharedSettings,
    request: RunRequest,
    user: str,
    cancel: CancelToken,
    on_wait: Told,
    on_start: Told,
    on_event: OnEvent | None = None,
) -> RunTicket:
    """Start a request for a user in the runtime of these settings.

    ``plugin`` is the caller's kind, ``function`` or ``tool``; ``on_wait`` is called if the
    run has to queue, ``on_start`` before it begins; ``on_event`` is called in a thread.
    A refusal comes as a result, with the sentence in its message.
    """
    runtime = _open_runtime(plugin, shared)
    run = runtime.run(request.to_plain(), user, cancel, on_wait, on_start, on_event)
    task = keep_task(run)
    task.add_done_callback(lambda _: runtime.close_run())
    return RunTicket(request.run_id, task, cancel)


def keep_task(work: Any) -> asyncio.Task[Any]:
    """Start a coroutine as a task that is not forgotten before it ends."""
    tasks = process_board().tasks
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


class InFlight:
    """The claim on one message of one chat: a second click finds it."""

    def __init__(self, key: tuple[str, ...], entry: dict[str, Any]) -> None:
        self._key = key
        self._entry = entry

    def release(self) -> None:
        """The run is over; the next click is a new one."""
        board = process_board()
        with board.lock:
            if board.in_flight.get(self._key) is self._entry:
                del board.in_flight[self._key]


def claim(
    key: tuple[str, ...], cancel: CancelToken
) -> tuple[InFlight | None, dict[str, Any]]:
    """Claim a message for a run, or find who has it.

    Returns (claim, entry), or (None, entry of the other). An entry has ``since`` (monotonic
    seconds) and ``cancel`` (a callable).
    """
    board = process_board()
    mine = {"since": time.monotonic(), "cancel": cancel.cancel}
    with board.lock:
        entry = board.in_flight.setdefault(key, mine)
    return (InFlight(key, mine) if entry is mine else None), entry
