"""Who may start a run now, and who waits: an asyncio queue that holds no thread."""

import asyncio
import threading
from collections import Counter

from sandbox_core.errors import SandboxError

__all__ = ["Admission", "Busy"]


class Busy(SandboxError):
    """Too many runs are waiting already."""


class Admission:
    """At most ``total`` runs at one time, ``per_user`` of one user; others wait in order.

    A user at the own cap is passed over, so that nobody else waits behind that user's queue.
    """

    def __init__(self, total: int, per_user: int, most_waiting: int) -> None:
        self._total = total
        self._per_user = per_user
        self._most_waiting = most_waiting
        self._running: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._lock = threading.Lock()

    async def enter(self, user: str) -> None:
        """Return when the run may start; leave() must follow. Raises Busy when too many wait."""
        with self._lock:
            if self._has_room(user):
                self._running[user] += 1
                return
            if len(self._waiting) >= self._most_waiting:
                raise Busy(
                    f"Too many runs are waiting ({len(self._waiting)}). Try again in a minute."
                )
            granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((user, granted))
        try:
            await granted
        except asyncio.CancelledError:
            if self._withdraw(user, granted):
                self.leave(user)
            raise

    def would_wait(self, user: str) -> bool:
        """Whether enter() would have to wait now."""
        with self._lock:
            return not self._has_room(user)

    def leave(self, user: str) -> None:
        """A run has ended: let in whoever has room now, in order of arrival."""
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
            still_waiting = []
            for waiter, granted in self._waiting:
                if granted.done():
                    continue
                if self._has_room(waiter):
                    self._running[waiter] += 1
                    granted.get_loop().call_soon_threadsafe(_grant, granted)
                else:
                    still_waiting.append((waiter, granted))
            self._waiting = still_waiting

    def _has_room(self, user: str) -> bool:
        full = self._running.total() >= self._total
        return not full and self._running[user] < self._per_user

    def _withdraw(self, user: str, granted: asyncio.Future[None]) -> bool:
        """Stop waiting. True when the place had been granted in the meantime."""
        with self._lock:
            if (user, granted) in self._waiting:
                self._waiting.remove((user, granted))
                return False
            return True


def _grant(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)
