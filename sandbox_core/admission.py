"""Who may start a run now, and who waits: an asyncio queue that holds no thread."""

import asyncio
import itertools
import threading
from collections import Counter, deque

from sandbox_core.errors import SandboxError

__all__ = ["Admission", "Busy"]


class Busy(SandboxError):
    """Too many runs are waiting already."""


class Admission:
    """At most ``total`` runs at one time, ``per_user`` of one user; others wait.

    One user's runs start in the order in which they came. Among users, whoever has the
    fewest running goes first, and of those whoever has waited longest: a long queue of one
    user holds up nobody else. At most ``most_waiting`` wait, ``most_waiting_per_user`` of
    one user. To be entered in one event loop or several, and left from any thread.
    """

    def __init__(
        self,
        total: int,
        per_user: int,
        most_waiting: int,
        most_waiting_per_user: int | None = None,
    ) -> None:
        self._total = total
        self._per_user = per_user
        self._most_waiting = most_waiting
        own = most_waiting if most_waiting_per_user is None else most_waiting_per_user
        self._most_waiting_per_user = own
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        self._arrivals = itertools.count()
        self._lock = threading.Lock()

    async def enter(self, user: str) -> None:
        """Return when the run may start; leave() must follow. Raises Busy when too many wait."""
        with self._lock:
            if self._has_room(user) and user not in self._waiting:
                self._running[user] += 1
                return
            self._check_queue(user)
            granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue = self._waiting.setdefault(user, deque())
            queue.append((next(self._arrivals), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if self._withdraw(user, granted):
                self.leave(user)
            raise

    def would_wait(self, user: str) -> bool:
        """Whether enter() would have to wait now."""
        with self._lock:
            return not self._has_room(user) or user in self._waiting

    def counts(self) -> tuple[int, int]:
        """How many run, and how many wait."""
        with self._lock:
            return self._running.total(), self._count_waiting()

    def leave(self, user: str) -> None:
        """A run has ended: let in whoever has room now."""
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
            while waiter := self._next_user():
                _, granted = self._waiting[waiter].popleft()
                if not self._waiting[waiter]:
                    del self._waiting[waiter]
                self._running[waiter] += 1
                granted.get_loop().call_soon_threadsafe(_grant, granted)

    def _has_room(self, user: str) -> bool:
        full = self._running.total() >= self._total
        return not full and self._running[user] < self._per_user

    def _check_queue(self, user: str) -> None:
        waiting = self._count_waiting()
        if waiting >= self._most_waiting:
            raise Busy(f"Too many runs are waiting ({waiting}). Try again in a minute.")
        own = len(self._waiting.get(user, ()))
        if own >= self._most_waiting_per_user:
            raise Busy(
                f"Too many of your runs are waiting ({own}). Let some end, then try again."
            )

    def _count_waiting(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    def _next_user(self) -> str | None:
        able = [user for user in self._waiting if self._has_room(user)]
        return min(
            able,
            key=lambda user: (self._running[user], self._waiting[user][0][0]),
            default=None,
        )

    def _withdraw(self, user: str, granted: asyncio.Future[None]) -> bool:
        """Stop waiting. True when the place had been granted in the meantime."""
        with self._lock:
            queue = self._waiting.get(user, deque())
            for entry in queue:
                if entry[1] is granted:
                    queue.remove(entry)
                    if not queue:
                        del self._waiting[user]
                    return False
            return True


def _grant(granted: asyncio.Future[None]) -> None:
    if not granted.done():
        granted.set_result(None)
