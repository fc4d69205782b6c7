"""What a tool call leaves under the answer, when the turn that made the call is over.

While a turn lasts, Open WebUI keeps the list of its items in memory and writes that over
whatever is stored. So what we have to add waits for the end of the turn.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from owui_plugin.file_store import Place
from owui_plugin.host import Emitter, stored_message
from owui_plugin.output_items import has_item
from owui_plugin.presenter import add_item, resolve_message_links
from sandbox_core.deadline import Deadline

__all__ = ["STOPPED_TURN_SECONDS", "TURN_SECONDS", "show_after_turn"]

TURN_SECONDS = 3600.0  # a model may call tools and write for long
STOPPED_TURN_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 1.0
# The browser gets the last list of the turn after the database has it.
_LAST_EVENT_SECONDS = 0.3
_LOOK_AFTER_SECONDS = 2.0


async def show_after_turn(
    place: Place,
    item: dict[str, Any] | None,
    addresses: Mapping[str, str],
    emitter: Emitter | None,
    patience: float = TURN_SECONDS,
) -> None:
    """Wait ``patience`` seconds at most for the end of the turn, then put an item (None: no
    item) under the answer, and resolve the answer's links to files with these addresses.
    """
    if not await _turn_has_ended(place, patience):
        return
    await asyncio.sleep(_LAST_EVENT_SECONDS)
    if item is None:
        await resolve_message_links(place, addresses, emitter)
        return
    await add_item(place.chat_id, place.message_id, item, emitter, addresses=addresses)
    await asyncio.sleep(_LOOK_AFTER_SECONDS)
    message = await stored_message(place.chat_id, place.message_id)
    if message is not None and not has_item(message.get("output"), item):
        await add_item(
            place.chat_id, place.message_id, item, emitter, addresses=addresses
        )


async def _turn_has_ended(place: Place, patience: float) -> bool:
    """False for a message that is not stored. When patience is over, the turn counts as
    ended: an item that is overwritten is better than none."""
    deadline, pause = Deadline(patience), _FIRST_PAUSE_SECONDS
    while not deadline.passed():
        message = await stored_message(place.chat_id, place.message_id)
        if message is None:
            return False
        if message.get("done"):
            break
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, _LONGEST_PAUSE_SECONDS)
    return True
