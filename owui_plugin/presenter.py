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
from owui_plugin.output_items import (
    has_item,
    item_id,
    put_item,
    text_item,
    unfinished_mark,
)
from owui_plugin.runtime import keep_task

__all__ = ["Presenter", "add_item", "put_into_message"]

_presenter_log = logging.getLogger("run_code.presenter")
# Seconds after the end at which the message is looked at: a browser saves its copy of the
# chat as soon as it has the action's answer, and a slow one takes its time.
_LOOKS_AFTER = (1.5, 5.0)
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

    async def show_running(self, run_id: str, text: str) -> None:
        """Put up the provisional text, where it can be replaced later."""
        if self._has_items:
            item = text_item(run_id, text)
            await add_item(self._chat_id, self._message_id, item, self._emitter)

    async def show_result(
        self, run_id: str, text: str, status: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Put up the result and the last status; gives what the action has to return to Open
        WebUI."""
        answer = None
        if self._has_items:
            item = text_item(run_id, text)
            await self._show_item(item)
            keep_task(self._write_again_if_lost(item, status))
        elif self._stored is not None:
            await add_legacy_text(self._emitter, text)
        else:
            content = self._shown_content + text
            answer = {"messages": [{"id": self._message_id, "content": content}]}
        await emit(self._emitter, "status", status)
        return answer

    async def _show_item(self, item: dict[str, Any]) -> None:
        if await add_item(self._chat_id, self._message_id, item, self._emitter):
            return
        output = put_item((self._stored or {}).get("output"), item)
        await emit(self._emitter, "chat:completion", {"output": output})
        warning = {"type": "error", "content": _NOT_SAVED}
        await emit(self._emitter, "notification", warning)

    async def _write_again_if_lost(
        self, item: dict[str, Any], status: dict[str, Any]
    ) -> None:
        """A browser that missed our events saves its own copy of the message over ours."""
        waited = 0.0
        for seconds in _LOOKS_AFTER:
            await asyncio.sleep(seconds - waited)
            waited = seconds
            message = await stored_message(self._chat_id, self._message_id)
            if not message or not _lacks(message, item):
                continue
            _presenter_log.info("a result was overwritten by a browser: written again")
            await add_item(self._chat_id, self._message_id, item, self._emitter, status)


async def add_item(
    chat_id: str,
    message_id: str,
    item: dict[str, Any],
    emitter: Emitter | None,
    status: dict[str, Any] | None = None,
) -> bool:
    """Put an item into a stored message, in the place of the one with its id if there is
    one, and show it. ``status`` ends the run's own status, if that still says that it runs.
    False when it could not be stored."""

    def change(message: dict[str, Any]) -> None:
        put_into_message(message, item)
        if status and _says_running(message, item):
            message["statusHistory"] = [*message["statusHistory"], status]

    written = await edit_message(chat_id, message_id, change)
    if written is not None:
        await emit(emitter, "chat:completion", {"output": written["output"]})
    return written is not None


def put_into_message(message: dict[str, Any], item: dict[str, Any]) -> None:
    """Put an item into a message, with what follows from it for the rest of the message."""
    message["output"] = put_item(message.get("output"), item)
    before = str(message.get("content") or "")
    message["content"] = plain_content(message["output"], before)
    if _is_empty_error(message.get("error")):
        # To delete the key would leave it in the second of Open WebUI's two stores.
        message["error"] = None


def _lacks(message: dict[str, Any], item: dict[str, Any]) -> bool:
    return (
        not has_item(message.get("output"), item)
        or _is_empty_error(message.get("error"))
        or _says_running(message, item)
    )


def _says_running(message: dict[str, Any], item: dict[str, Any]) -> bool:
    mark = unfinished_mark(message.get("statusHistory"))
    return mark is not None and item_id(str(mark.get("run"))) == item["id"]


def _is_empty_error(error: Any) -> bool:
    """The browser notes such an error when a person leaves the page during a run."""
    return isinstance(error, dict) and error.get("content") in ({}, "{}", "", None)
