"""Runs that a restart of Open WebUI cut off: their messages are told so, and end."""

import asyncio
import logging
import time
from typing import Any

from owui_plugin.host import (
    edit_message,
    emit,
    emitter_for,
    messages_left_running,
    stored_message,
)
from owui_plugin.output_items import MARK, put_item, text_item, unfinished_mark
from owui_plugin.render import render_refusal_for_chat
from owui_plugin.runtime import keep_task, process_board
from sandbox_core.leases import Lease, is_dead

__all__ = ["end_as_interrupted", "mark_interrupted_runs", "mark_interrupted_runs_soon"]

_interrupted_log = logging.getLogger("run_code.interrupted")
_SENTENCE = "The run was interrupted by a restart of Open WebUI. Run the code again."


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
    """End every recent message with a run of ours whose process is gone."""
    for chat_id, message_id, user_id in await messages_left_running():
        message = await stored_message(chat_id, message_id)
        mark = unfinished_mark((message or {}).get("statusHistory"))
        if mark is None or not _owner_is_gone(mark):
            continue
        changed = await edit_message(chat_id, message_id, end_as_interrupted)
        if changed is None:
            continue
        _interrupted_log.info("run %s was interrupted by a restart", mark.get("run"))
        emitter = await emitter_for(user_id, chat_id, message_id)
        await emit(emitter, "status", changed["statusHistory"][-1])
        if changed.get("output"):
            await emit(emitter, "chat:completion", {"output": changed["output"]})


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
    text = render_refusal_for_chat(_SENTENCE)
    if message.get("content") and not message.get("output"):
        message["content"] += text
    else:
        ended = {**mark, "state": "interrupted"}
        item = text_item(str(mark.get("run")), text, ended)
        message["output"] = put_item(message.get("output"), item)
    message["done"] = True
    message["statusHistory"] = [
        *message["statusHistory"],
        {
            "description": "Interrupted by a restart",
            "done": True,
            MARK: {"state": "ended"},
        },
    ]
