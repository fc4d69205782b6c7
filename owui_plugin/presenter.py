"""Puts a run's Markdown under an answer so that it is seen now, after a reload, by the model.

There are three kinds of message. One that Open WebUI 0.12 made has ``output`` items: ours is
written beside them and sent to the browser as the same list, so that the browser's own save
agrees with ours. An older or imported one has ``content`` only. One of a temporary chat is in
the browser alone, which takes it from the action's return value.
"""

import asyncio
import logging
from typing import Any

from owui_plugin.host import (
    Emitter,
    add_legacy_text,
    edit_message,
    emit,
    plain_content,
    stored_message,
)
from owui_plugin.output_items import has_item, put_item, text_item
from owui_plugin.runtime import keep_task

__all__ = ["Presenter", "add_item"]

_presenter_log = logging.getLogger("run_code.presenter")
_BROWSER_SAVE_SECONDS = 1.5
_NOT_SAVED = (
    "The result could not be saved with the chat: it will be gone after a reload. Run the "
    "code again, or copy it now."
)


class Presenter:
    """Shows one run under one message. ``stored`` is the message as it was at the click."""

    def __init__(
        self,
        chat_id: str,
        message_id: str,
        stored: dict[str, Any] | None,
        shown_content: str,
        emitter: Emitter | None,
    ) -> None:
        self._chat_id = chat_id
        self._message_id = message_id
        self._stored = stored
        self._shown_content = shown_content
        self._emitter = emitter

    @property
    def _has_items(self) -> bool:
        return bool(self._stored and self._stored.get("output"))

    async def show_running(self, run_id: str, text: str, mark: dict[str, Any]) -> None:
        """Put up the provisional text, where it can be replaced later."""
        if self._has_items:
            await self._write(text_item(run_id, text, mark))

    async def show_result(self, run_id: str, text: str) -> dict[str, Any] | None:
        """Put up the result; gives what the action has to return to Open WebUI."""
        if self._has_items:
            item = text_item(run_id, text, {"state": "ended", "run": run_id})
            await self._write(item)
            keep_task(self._write_again_if_lost(item))
            return None
        if self._stored is not None:
            await add_legacy_text(self._emitter, text)
            return None
        content = self._shown_content + text
        return {"messages": [{"id": self._message_id, "content": content}]}

    async def _write(self, item: dict[str, Any]) -> None:
        if await add_item(self._chat_id, self._message_id, item, self._emitter):
            return
        output = put_item((self._stored or {}).get("output"), item)
        await emit(
            self._emitter, "notification", {"type": "error", "content": _NOT_SAVED}
        )
        await emit(self._emitter, "chat:completion", {"output": output})

    async def _write_again_if_lost(self, item: dict[str, Any]) -> None:
        """A tab that missed our event saves its own copy of the message over ours."""
        await asyncio.sleep(_BROWSER_SAVE_SECONDS)
        message = await stored_message(self._chat_id, self._message_id)
        if message is None:
            return
        if not has_item(message.get("output"), item) or _is_empty_error(
            message.get("error")
        ):
            _presenter_log.info(
                "a result was overwritten by the browser; it is written again"
            )
            await self._write(item)


async def add_item(
    chat_id: str, message_id: str, item: dict[str, Any], emitter: Emitter | None
) -> bool:
    """Put an item into a stored message, in the place of the one with its id if there is
    one, and show it. False when it could not be stored."""

    def change(message: dict[str, Any]) -> None:
        message["output"] = put_item(message.get("output"), item)
        before = str(message.get("content") or "")
        message["content"] = plain_content(message["output"], before)
        if _is_empty_error(message.get("error")):
            del message["error"]

    written = await edit_message(chat_id, message_id, change)
    if written is not None:
        await emit(emitter, "chat:completion", {"output": written["output"]})
    return written is not None


def _is_empty_error(error: Any) -> bool:
    """The browser notes such an error when a person leaves the page during a run."""
    return isinstance(error, dict) and error.get("content") in ({}, "{}", "", None)
