"""All that we ask of Open WebUI, each request behind one small function.

Verified with Open WebUI 0.12.4. Its modules are imported where they are used: outside of it
(a self-test, a unit test) this module still loads. Calls are awaited only where they give
something awaitable, because older versions have synchronous models.
"""

import inspect
import logging
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from owui_plugin.output_items import MARK

__all__ = [
    "Emitter",
    "MarkedMessage",
    "edit_message",
    "emit",
    "emitter_for",
    "is_open_webui_here",
    "is_saved_chat",
    "messages_with_marks",
    "plain_content",
    "settle",
    "show_items",
    "stored_message",
]

_host_log = logging.getLogger("run_code.host")
_RECENT_SECONDS = 7 * 24 * 3600
_NOT_STORED = ("temporary:", "local:", "channel:")  # "local:" before 0.12

Emitter = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class MarkedMessage:
    """A stored message that once had a run of ours, and its status lines, oldest first."""

    chat_id: str
    message_id: str
    user_id: str
    status_history: Any


async def settle(value: Any) -> Any:
    """The value, awaited if it has to be."""
    return await value if inspect.isawaitable(value) else value


def is_saved_chat(chat_id: Any) -> bool:
    """Whether the chat is one that Open WebUI stores; a temporary one lives in the browser."""
    return (
        is_open_webui_here()
        and isinstance(chat_id, str)
        and bool(chat_id)
        and not chat_id.startswith(_NOT_STORED)
    )


def is_open_webui_here() -> bool:
    """Whether Open WebUI runs in this process. Where it is only installed (a self-test), to
    import it would end the process: it wants its whole configuration first."""
    return "open_webui.main" in sys.modules


async def emit(emitter: Emitter | None, kind: str, data: dict[str, Any]) -> None:
    """Send an event to the person's browser. A failure is no reason to lose a run."""
    if emitter is None:
        return
    try:
        await settle(emitter({"type": kind, "data": data}))
    except Exception:
        _host_log.exception("an event of kind %s could not be sent", kind)


async def stored_message(chat_id: Any, message_id: Any) -> dict[str, Any] | None:
    """The message as Open WebUI stores it; None for a temporary chat or an unknown message."""
    if not is_saved_chat(chat_id) or not isinstance(message_id, str):
        return None
    try:
        from open_webui.models.chats import Chats

        message = await settle(
            Chats.get_message_by_id_and_message_id(chat_id, message_id)
        )
    except Exception:
        _host_log.exception("a message could not be read")
        return None
    return message if isinstance(message, dict) else None


async def edit_message(
    chat_id: str, message_id: str, change: Callable[[dict[str, Any]], None]
) -> dict[str, Any] | None:
    """Change a stored message in place; returns a copy of what was written, None if it failed.

    One lock over both stores where Open WebUI has one (0.12), else read, change, write.
    """
    if not is_saved_chat(chat_id):
        return None
    try:
        from open_webui.models.chats import Chats

        if hasattr(Chats, "edit_message_output"):
            async with Chats.edit_message_output(chat_id, message_id) as message:
                if message is None:
                    return None
                change(message)
                return dict(deepcopy(message))
        message = await stored_message(chat_id, message_id)
        if message is None:
            return None
        change(message)
        written = await settle(
            Chats.upsert_message_to_chat_by_id_and_message_id(
                chat_id, message_id, message
            )
        )
        return None if written is None else dict(deepcopy(message))
    except Exception:
        _host_log.exception("a message could not be changed")
        return None


async def show_items(emitter: Emitter | None, output: list[Any]) -> None:
    """Show the items of a message in the browser."""
    text = _text_for_old_browser(output)
    shown = {"output": output} if text is None else {"output": output, "content": text}
    await emit(emitter, "chat:completion", shown)


def _text_for_old_browser(output: list[Any]) -> str | None:
    """What the browser of Open WebUI 0.9 shows in the place of items, which it does not know;
    None for later ones."""
    if not is_open_webui_here():
        return None
    from open_webui.env import VERSION

    if not str(VERSION).startswith("0.9."):
        return None
    from open_webui.utils.middleware import serialize_output

    return str(serialize_output(output))


def plain_content(output: list[Any], otherwise: str) -> str:
    """The text of ``output`` that Open WebUI keeps beside it, for search and notifications."""
    if not is_open_webui_here():
        return otherwise
    text = _text_for_old_browser(output)
    if text is not None:
        return text
    try:
        from open_webui.utils.misc import get_output_text
    except ImportError:
        return otherwise
    return str(get_output_text(output))


async def emitter_for(
    user_id: str, chat_id: str, message_id: str, session_id: str = ""
) -> Emitter | None:
    """An emitter that writes nothing itself; None where there is none. ``session_id``: of
    the browser tab that asked, if one did."""
    if not is_open_webui_here():
        return None
    try:
        from open_webui.socket.main import get_event_emitter

        request = {
            "user_id": user_id,
            "chat_id": chat_id,
            "message_id": message_id,
            "session_id": session_id,
        }
        emitter: Emitter = await settle(get_event_emitter(request, update_db=False))
    except Exception:
        _host_log.exception("no emitter for a message")
        return None
    return emitter


async def messages_with_marks() -> list[MarkedMessage]:
    """Recent messages with a mark of ours in their status, of runs that have ended and of
    others. Empty where this version of Open WebUI keeps no table of messages."""
    if not is_open_webui_here():
        return []
    try:
        from open_webui.internal.db import get_async_db_context
        from open_webui.models.chat_messages import ChatMessage
        from sqlalchemy import String, cast, select

        query = (
            select(
                ChatMessage.chat_id,
                ChatMessage.id,
                ChatMessage.user_id,
                ChatMessage.status_history,
            )
            .where(ChatMessage.updated_at > int(time.time()) - _RECENT_SECONDS)
            .where(cast(ChatMessage.status_history, String).like(f'%"{MARK}"%'))
        )
        async with get_async_db_context() as database:
            rows = (await database.execute(query)).all()
    except Exception:
        _host_log.exception("unfinished runs could not be looked for")
        return []
    return [
        MarkedMessage(chat, row.removeprefix(f"{chat}-"), user, history)
        for chat, row, user, history in rows
    ]
