"""The end of a program's output, shown while it runs."""

import asyncio
from collections.abc import Awaitable, Callable

from sandbox_core.models import RunEvent

__all__ = ["LiveOutput"]

_PREVIEW_CHARACTERS = 2048  # at most 4 KiB in any script that has two bytes a character
_PAUSE_SECONDS = 0.5


class LiveOutput:
    """Collects what a run prints and shows its last 2048 characters, twice a second at most.

    ``show`` is awaited with the text. A run that is over in half a second shows nothing here.
    """

    def __init__(self, show: Callable[[str], Awaitable[None]]) -> None:
        self._show = show
        self._tail = ""
        self._shown = ""

    def take(self, event: RunEvent) -> None:
        """Take an event of the run. Called by the run's feed, in a thread of that."""
        if event.kind == "text":
            self._tail = (self._tail + event.text)[-_PREVIEW_CHARACTERS:]

    async def run(self) -> None:
        """Show what is new, for ever: cancel it when the run is over."""
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            tail = self._tail
            if tail != self._shown:
                self._shown = tail
                await self._show(_as_on_a_screen(tail))


def _as_on_a_screen(text: str) -> str:
    """Lines as they stand now: a carriage return begins the line anew."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join(lines)
