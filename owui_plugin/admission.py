"""Who may start a run now, and who waits: an asyncio queue that holds no thread."""

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass

from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import SandboxError

__all__ = ["Admission", "Busy"]


class Busy(SandboxError):
    """Too many runs are waiting already."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """One run in the queue. ``admitted``: its place is counted, whether it knows or not."""

    user: str
    answer: asyncio.Future[bool]
    admitted: bool = False


class Admission:
    """At most ``total`` runs at one time, ``per_user`` of one user; others wait in order.

    A user at the own cap is passed over, so that nobody else waits behind that user's queue.
    """

    def __init__(self, total: int, per_user: int, most_waiting: int) -> None:
        self._total = total
        self._per_user = per_user
        self._most_waiting = most_waiting
        self._running: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []
        self._lock = threading.Lock()

    async def enter(self, user: str, cancel: CancelToken) -> bool:
        """Wait for a place. True: the run may start, and leave() must follow. False: the run
        was cancelled before. Raises Busy when too many wait."""
        if cancel.is_set():
            return False
        with self._lock:
            if self._has_room(user):
                self._running[user] += 1
                return True
            if len(self._waiting) >= self._most_waiting:
                raise Busy(
                    f"Too many runs are waiting ({len(self._waiting)}). Try again in a minute."
                )
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            waiter = _Waiter(user, answer)
            self._waiting.append(waiter)
        cancel.call_on_cancel(lambda: self._withdraw(waiter))
        try:
            return await answer
        except asyncio.CancelledError:
            self._withdraw(waiter)
            if waiter.admitted:
                self.leave(user)
            raise

    def would_wait(self, user: str) -> bool:
        """Whether enter() would have to wait now."""
        with self._lock:
            return not self._has_room(user)

    def leave(self, user: str) -> None:
        """A run has ended: let in whoever has room now, in order of arrival. Any thread."""
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
            for waiter in list(self._waiting):
                if self._has_room(waiter.user):
                    self._running[waiter.user] += 1
                    waiter.admitted = True
                    self._waiting.remove(waiter)
                    _answer(waiter, True)

    def _has_room(self, user: str) -> bool:
        full = self._running.total() >= self._total
        return not full and self._running[user] < self._per_user

    def _withdraw(self, waiter: _Waiter) -> None:
        """Take a cancelled run out of the queue, if it is still in it. Any thread."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                _answer(waiter, False)


def _answer(waiter: _Waiter, admitted: bool) -> None:
    loop = waiter.answer.get_loop()
    loop.call_soon_threadsafe(_settle_answer, waiter.answer, admitted)


def _settle_answer(answer: asyncio.Future[bool], admitted: bool) -> None:
    if not answer.done():
        answer.set_result(admitted)
