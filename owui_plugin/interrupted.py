"""Runs that a restart of Open WebUI cut off: their messages are told so, and end."""

import asyncio
import logging
import time
from typing import Any

from owui_plugin.host import (
    MarkedMessage,
    edit_message,
    emit,
    emitter_for,
    messages_with_marks,
    show_items,
)
from owui_plugin.output_items import text_item, unfinished_mark
from owui_plugin.presenter import put_into_message
from owui_plugin.progress import ended_status
from owui_plugin.render import interrupted_text
from owui_plugin.runtime import keep_task, process_board
from sandbox_core.leases import Lease, is_dead

__all__ = ["end_as_interrupted", "mark_interrupted_runs", "mark_interrupted_runs_soon"]

_interrupted_log = logging.getLogger("run_code.interrupted")
# More than the margin after which a lease that ran out counts as dead.
_LEASE_MARGIN_SECONDS = 60.0


def mark_interrupted_runs_soon() -> None:
    """Once per process, as soon as there is an event loop to do it in: a page is about to be
    loaded then, and should not show a run that nobody works on."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    board = process_board()
    with board.lock:
        if board.recovered:
            return
        board.recovered = True
    keep_task(mark_interrupted_runs())


async def mark_interrupted_runs() -> None:
    """End every recent message with a run of ours whose process is gone.

    Of some that cannot be told yet: their process was on another host (a new container of
    Open WebUI is one), or is another worker. When their time is over, there is a second look.
    """
    undecided = await _mark_what_is_dead()
    if undecided:
        latest = max(float(mark["expires"]) for mark in undecided)
        await asyncio.sleep(latest + _LEASE_MARGIN_SECONDS - time.time())
        await _mark_what_is_dead()


async def _mark_what_is_dead() -> list[dict[str, Any]]:
    """Returns the marks of the runs that may still be alive."""
    undecided = []
    for left in await messages_with_marks():
        mark = unfinished_mark(left.status_history)
        if mark is None:
            continue
        if _owner_is_gone(mark):
            await _end_message(left, str(mark.get("run")))
        else:
            undecided.append(mark)
    return undecided


async def _end_message(left: MarkedMessage, run_id: str) -> None:
    changed = await edit_message(left.chat_id, left.message_id, end_as_interrupted)
    if changed is None:
        return
    _interrupted_log.info("run %s was interrupted by a restart", run_id)
    emitter = await emitter_for(left.user_id, left.chat_id, left.message_id)
    await emit(emitter, "status", changed["statusHistory"][-1])
    if changed.get("output"):
        await show_items(emitter, changed["output"])


def _owner_is_gone(mark: dict[str, Any]) -> bool:
    owner, expires = mark.get("owner"), mark.get("expires")
    if not isinstance(owner, str) or not isinstance(expires, (int, float)):
        return True
    return is_dead(Lease("", str(mark.get("run")), owner, float(expires)), time.time())


def end_as_interrupted(message: dict[str, Any]) -> None:
    """Put the sentence where the result would stand, and end the message and its status."""
    mark = unfinished_mark(message.get("statusHistory"))
    if mark is None:  # it ended by itself meanwhile
        return
    text = interrupted_text()
    if message.get("content") and not message.get("output"):
        message["content"] += text
    else:
        put_into_message(message, text_item(str(mark.get("run")), text))
    message["done"] = True
    status = ended_status("Interrupted by a restart")
    message["statusHistory"] = [*message["statusHistory"], status]
