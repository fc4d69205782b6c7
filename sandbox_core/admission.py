"""Who may start a run now, and who waits: an asyncio queue that holds no thread."""

import asyncio
import threading
from collections import Counter, deque
from dataclasses import dataclass

from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import SandboxError

__all__ = ["Admission", "Busy", "Turn"]


class Busy(SandboxError):
    """Too many runs are waiting already."""


@dataclass(eq=False, slots=True)
class Turn:
    """One run in the queue. ``admitted``: its place is counted, whether it knows or not."""

    user: str
    answer: asyncio.Future[bool]
    admitted: bool = False


class Admission:
    """At most ``total`` runs at one time, ``per_user`` of one user; others wait.

    One user's runs start in the order in which they came. Among users, whoever has the
    fewest running goes first, and of those they take turns: a long queue of one user holds
    up nobody else. At most ``most_waiting`` wait, ``most_waiting_per_user`` of
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
        # In the order in which the users have their turns.
        self._waiting: dict[str, deque[Turn]] = {}
        self._lock = threading.Lock()

    async def enter(self, user: str, cancel: CancelToken) -> bool:
        """Wait for a place. True: the run may start, and leave() must follow. False: the run
        was cancelled before. Raises Busy when too many wait."""
        return await self.wait(self.ask(user, cancel))

    def ask(self, user: str, cancel: CancelToken) -> Turn:
        """Take a place, or one in the queue; wait() must follow. Raises Busy."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        turn = Turn(user, answer)
        if cancel.is_set():
            answer.set_result(False)
            return turn
        with self._lock:
            if self._has_room(user) and user not in self._waiting:
                self._running[user] += 1
                turn.admitted = True
                answer.set_result(True)
                return turn
            self._check_queue(user)
            self._waiting.setdefault(user, deque()).append(turn)
        cancel.call_on_cancel(lambda: self._withdraw(turn))
        return turn

    async def wait(self, turn: Turn) -> bool:
        """The rest of enter(), for whoever asked."""
        try:
            return await turn.answer
        except asyncio.CancelledError:
            self._withdraw(turn)
            if turn.admitted:
                self.leave(turn.user)
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
        """A run has ended: let in whoever has room now. Any thread."""
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
            while turn := self._next_turn():
                self._running[turn.user] += 1
                turn.admitted = True
                self._take_out(turn)
                if queue := self._waiting.pop(turn.user, None):
                    self._waiting[turn.user] = queue  # behind all others
                _answer(turn, True)

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

    def _next_turn(self) -> Turn | None:
        first = [
            queue[0] for user, queue in self._waiting.items() if self._has_room(user)
        ]
        return min(first, key=lambda turn: self._running[turn.user], default=None)

    def _take_out(self, turn: Turn) -> None:
        queue = self._waiting[turn.user]
        queue.remove(turn)
        if not queue:
            del self._waiting[turn.user]

    def _withdraw(self, turn: Turn) -> None:
        """Take a cancelled run out of the queue, if it is still in it. Any thread."""
        with self._lock:
            if turn in self._waiting.get(turn.user, ()):
                self._take_out(turn)
                _answer(turn, False)


def _answer(turn: Turn, admitted: bool) -> None:
    loop = turn.answer.get_loop()
    loop.call_soon_threadsafe(_settle_answer, turn.answer, admitted)


def _settle_answer(answer: asyncio.Future[bool], admitted: bool) -> None:
    if not answer.done():
        answer.set_result(admitted)
