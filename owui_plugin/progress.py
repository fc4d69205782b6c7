"""What a person sees of a run while it lasts: the grey line above the answer.

Each event is a write to Open WebUI's database, so there are at most three of them: waiting,
running, ended. The first two carry our mark, by which a restart finds them again.
"""

import time
from typing import Any

from owui_plugin.host import Emitter, emit
from owui_plugin.output_items import MARK, ended_mark, running_mark
from sandbox_core.leases import current_owner
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome

__all__ = ["Progress", "ended_status"]

# After this many seconds over its own limit a run is over at the latest. They hold start-up,
# transfers and clean-up; in the queue, other people's runs too.
_RUN_SECONDS = 120
_QUEUE_SECONDS = 600


class Progress:
    """Tells the states of one run. ``label`` names what runs, as ``Python``;
    ``limit_seconds`` is its time limit."""

    def __init__(
        self, emitter: Emitter | None, label: str, run_id: str, limit_seconds: float
    ) -> None:
        self._emitter = emitter
        self._label = label
        self._run_id = run_id
        self._limit_seconds = limit_seconds

    async def waiting(self) -> None:
        """The run has to wait for others."""
        await self._tell("Waiting for a free sandbox…", _QUEUE_SECONDS)

    async def running(self) -> None:
        """The run is about to begin."""
        await self._tell(f"Running {self._label}…", _RUN_SECONDS)

    def ended(self, result: RunResult) -> dict[str, Any]:
        """The last status of the run, for whoever shows its result."""
        if result.outcome is Outcome.OK:
            return ended_status(f"Ran {self._label} · {result.seconds:.1f} s")
        # There is room for one line; all of it is in the result.
        first, point, _ = result.message.partition(". ")
        return ended_status(first + point.strip())

    async def _tell(self, text: str, overtime: float) -> None:
        expires_at = time.time() + self._limit_seconds + overtime
        mark = running_mark(self._run_id, current_owner(), expires_at)
        status = {"description": text, "done": False, MARK: mark}
        await emit(self._emitter, "status", status)


def ended_status(text: str) -> dict[str, Any]:
    """A status after which nothing is under way any more."""
    return {"description": text, "done": True, MARK: ended_mark()}
