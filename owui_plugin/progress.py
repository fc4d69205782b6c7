"""What a person sees of a run while it lasts: the grey line above the answer.

Each line is a write to Open WebUI's database, so there are at most three of them: waiting,
running, ended. The first two carry our mark, by which a restart finds them again. No run waits
until they are written, and one that is over at once has the last one only.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from owui_plugin.output_items import MARK, ended_mark, running_mark
from owui_plugin.runtime import keep_task
from sandbox_core.leases import current_owner
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome

__all__ = ["Progress", "ended_status"]

# After this many seconds over its own limit a run is over at the latest. They hold start-up,
# transfers and clean-up; in the queue, other people's runs too.
_RUN_SECONDS = 120
_QUEUE_SECONDS = 600
# A run that is over within this time is over before anybody could read that it runs.
_QUIET_SECONDS = 0.15


class Progress:
    """Tells the states of one run, beside it. ``label`` names what runs, as ``Python``;
    ``limit_seconds`` is its time limit; ``show`` is awaited with each status line.
    """

    def __init__(
        self,
        label: str,
        run_id: str,
        limit_seconds: float,
        show: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        self._label = label
        self._run_id = run_id
        self._limit_seconds = limit_seconds
        self._show = show
        self._untold: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._teller = keep_task(self._tell())

    def waiting(self) -> None:
        """The run has to wait for others."""
        self._say("Waiting for a free sandbox…", _QUEUE_SECONDS)

    def running(self) -> None:
        """The run is about to begin."""
        self._say(f"Running {self._label}…", _RUN_SECONDS)

    async def end(self) -> None:
        """Nothing is told from now on; what is being told has been told on return."""
        self._over.set()
        self._changed.set()
        await asyncio.wait({self._teller})

    def ended(self, result: RunResult) -> dict[str, Any]:
        """The last status of the run, for whoever shows its result."""
        if result.outcome is Outcome.OK:
            return ended_status(f"Ran {self._label} · {result.seconds:.1f} s")
        # There is room for one line; all of it is in the result.
        first, point, _ = result.message.partition(". ")
        return ended_status(first + point.strip())

    def _say(self, text: str, overtime: float) -> None:
        expires_at = time.time() + self._limit_seconds + overtime
        mark = running_mark(self._run_id, current_owner(), expires_at)
        self._untold = {"description": text, "done": False, MARK: mark}
        self._changed.set()

    async def _tell(self) -> None:
        await _set_within(self._over, _QUIET_SECONDS)
        while not self._over.is_set():
            await self._changed.wait()
            self._changed.clear()
            status, self._untold = self._untold, None
            if status is not None and not self._over.is_set():
                await self._show(status)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not longer than this."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def ended_status(text: str) -> dict[str, Any]:
    """A status after which nothing is under way any more."""
    return {"description": text, "done": True, MARK: ended_mark()}
