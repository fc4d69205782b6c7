"""What a person sees of a run while it lasts: the grey line above the answer.

Each event is a write to Open WebUI's database, so there are at most three of them: waiting,
running, ended. The first two carry our mark, by which a restart finds them again.
"""

import time
from typing import Any

from owui_plugin.host import Emitter, emit
from owui_plugin.output_items import MARK, running_mark
from sandbox_core.leases import current_owner
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome

__all__ = ["Progress"]

_QUEUE_SECONDS = 600


class Progress:
    """Tells the states of one run. ``label`` names what runs, as ``Python``."""

    def __init__(
        self, emitter: Emitter | None, label: str, run_id: str, limit_seconds: float
    ) -> None:
        self._emitter = emitter
        self._label = label
        expires_at = time.time() + limit_seconds + _QUEUE_SECONDS
        self.mark = running_mark(run_id, current_owner(), expires_at)

    async def running(self) -> None:
        """The run has begun, or is about to."""
        await self._tell(f"Running {self._label}…", done=False)

    async def waiting(self) -> None:
        """The run has to wait for others."""
        await self._tell("Waiting for a free sandbox…", done=False)

    async def ended(self, result: RunResult) -> None:
        """The run is over."""
        if result.outcome is Outcome.OK:
            text = f"Ran {self._label} in {result.seconds:.1f} s"
        else:
            text = result.message
        await self._tell(text, done=True)

    async def refused(self, sentence: str) -> None:
        """Nothing was run, for this reason."""
        await self._tell(sentence, done=True)

    async def _tell(self, text: str, done: bool) -> None:
        mark: dict[str, Any] = {"state": "ended"} if done else self.mark
        await emit(
            self._emitter, "status", {"description": text, "done": done, MARK: mark}
        )
