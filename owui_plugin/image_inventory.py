"""What the sandboxes' image has, remembered by the image's digest."""

import asyncio
import time

from owui_plugin.backend import image_digest
from owui_plugin.runtime import start_run
from owui_plugin.settings import SharedSettings
from sandbox_core.engines.base import CancelToken
from sandbox_core.inventory import Inventory, inventory_request, read_inventory

__all__ = ["inventory_of", "known_inventory"]

# Where the digest cannot be told, as from codebox.
_BELIEVED_SECONDS = 600.0
_known_inventories: dict[object, tuple[str, float, Inventory]] = {}


async def inventory_of(shared: SharedSettings, user: str, chat: str) -> Inventory:
    """The inventory; a run of this user, if it is not known yet. Raises InventoryFailed."""
    digest = await asyncio.to_thread(image_digest, shared)
    known = _known_inventories.get(shared.key)
    if known is not None:
        is_same = known[0] == digest if digest else time.monotonic() < known[1]
        if is_same:
            return known[2]
    request = inventory_request(user, chat)
    cancel = CancelToken()
    ticket = start_run(
        "tool",
        shared,
        request,
        user,
        cancel,
        on_wait=_say_nothing,
        on_start=_say_nothing,
    )
    try:
        found = read_inventory(await ticket.result())
    except asyncio.CancelledError:
        cancel.cancel()
        raise
    until = time.monotonic() + _BELIEVED_SECONDS
    _known_inventories.clear()  # of other settings nobody will ask again
    _known_inventories[shared.key] = (digest, until, found)
    return found


def known_inventory(shared: SharedSettings) -> Inventory | None:
    """The inventory that was told last, if that was with these settings."""
    known = _known_inventories.get(shared.key)
    return known[2] if known else None


def _say_nothing() -> None:
    """Nobody is told about this run."""
