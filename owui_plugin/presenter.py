"""Puts a run's Markdown under an answer so that it is seen now, after a reload, by the model.

There are three kinds of message. One that Open WebUI 0.12 made has ``output`` items: ours is
written beside them and sent to the browser as the same list, so that the browser's own save
agrees with ours. An older or imported one has ``content`` only. One of a temporary chat is in
the browser alone, which takes it from the action's return value.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from owui_plugin.file_store import Place
from owui_plugin.host import (
    Emitter,
    edit_message,
    emit,
    plain_content,
    show_items,
    stored_message,
)
from owui_plugin.output_items import (
    has_item,
    put_item,
    text_item,
    unfinished_mark,
)
from owui_plugin.runtime import keep_task
from owui_plugin.sandbox_links import resolve_links, resolve_links_in_items

__all__ = ["Presenter", "add_item", "put_into_message", "resolve_message_links"]

_presenter_log = logging.getLogger("run_code.presenter")
# Seconds after the end at which the message is looked at: a browser saves its copy of the
# chat as soon as it has the action's answer, and a slow one takes its time.
_LOOKS_AFTER = (1.5, 5.0)
_NOT_SAVED = (
    "The result could not be saved with the chat: it will be gone after a reload. Run the "
    "code again, or copy it now."
)


class Presenter:
    """Shows one run under one message. ``stored`` is the message as it was at the click;
    ``emitter`` tells the browser and writes nothing itself.
    """

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
        self._addresses: Mapping[str, str] = {}

    @property
    def _has_items(self) -> bool:
        return bool(self._stored and self._stored.get("output"))

    async def show_running(
        self, run_id: str, text: str, status: dict[str, Any]
    ) -> None:
        """Put up a status, and the provisional text where it can be replaced later."""
        item = text_item(run_id, text) if self._has_items else None
        if self._stored:
            await self._write(item, "", status)
        if item:
            await self._show_items(item)
        await emit(self._emitter, "status", status)

    async def show_preview(self, run_id: str, text: str) -> None:
        """Replace the provisional text in the browser, and nowhere else."""
        if self._has_items:
            await self._show_items(text_item(run_id, text))

    async def show_result(
        self,
        run_id: str,
        text: str,
        status: dict[str, Any],
        addresses: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | None:
        """Put up the result and the last status; gives what the action has to return to Open
        WebUI. ``addresses``: of files that links in the answer may mean."""
        self._addresses = addresses or {}
        if not self._stored:
            await emit(self._emitter, "status", status)
            content = resolve_links(self._shown_content, self._addresses) + text
            return {"messages": [{"id": self._message_id, "content": content}]}
        item = text_item(run_id, text) if self._has_items else None
        saved = await self._write(item, "" if item else text, status)
        if item:
            await self._show_items(item)
        else:
            # For the browser alone: the event that Open WebUI stores would store it twice.
            await emit(self._emitter, "chat:message:delta", {"content": text})
        await emit(self._emitter, "status", status)
        if saved:
            keep_task(self._write_again_if_lost(run_id, item, status))
        else:
            warning = {"type": "error", "content": _NOT_SAVED}
            await emit(self._emitter, "notification", warning)
        return None

    async def _write(
        self, item: dict[str, Any] | None, more_content: str, status: dict[str, Any]
    ) -> bool:
        """All that is new about the message in one write to the database."""

        def change(message: dict[str, Any]) -> None:
            _put_result(message, item, self._addresses)
            if more_content:
                message["content"] = str(message.get("content") or "") + more_content
            _add_status(message, status)

        written = await edit_message(self._chat_id, self._message_id, change)
        if written is not None:
            self._stored = written
        return written is not None

    async def _show_items(self, item: dict[str, Any]) -> None:
        before = (self._stored or {}).get("output")
        await show_items(self._emitter, put_item(before, item))

    async def _write_again_if_lost(
        self, run_id: str, item: dict[str, Any] | None, status: dict[str, Any]
    ) -> None:
        """A browser that missed our events saves its own copy of the message over ours."""

        def change(message: dict[str, Any]) -> None:
            _put_result(message, item, self._addresses)
            if _says_running(message, run_id):
                _add_status(message, status)

        waited = 0.0
        for seconds in _LOOKS_AFTER:
            await asyncio.sleep(seconds - waited)
            waited = seconds
            message = await stored_message(self._chat_id, self._message_id)
            if not message or _is_in_order(message, run_id, item):
                continue
            _presenter_log.info("run %s: a browser wrote over its result", run_id)
            written = await edit_message(self._chat_id, self._message_id, change)
            if written and item:
                await show_items(self._emitter, written["output"])


async def add_item(
    chat_id: str,
    message_id: str,
    item: dict[str, Any],
    emitter: Emitter | None,
    addresses: Mapping[str, str] | None = None,
) -> bool:
    """Put an item into a stored message, in the place of the one with its id if there is
    one, and show it. ``addresses``: of files that links in the answer may mean. False when
    it could not be stored."""

    written = await edit_message(
        chat_id,
        message_id,
        lambda message: _put_result(message, item, addresses or {}),
    )
    if written is not None:
        await show_items(emitter, written["output"])
    return written is not None


async def resolve_message_links(
    place: Place, addresses: Mapping[str, str], emitter: Emitter | None
) -> None:
    """Make the links of a stored answer lead to these files, if it has such links."""
    message = await stored_message(place.chat_id, place.message_id)
    before = (message or {}).get("output")
    if resolve_links_in_items(before, addresses) == before:
        return
    written = await edit_message(
        place.chat_id,
        place.message_id,
        lambda message: _resolve_links_of(message, addresses),
    )
    if written is not None:
        await show_items(emitter, written["output"])


def _resolve_links_of(message: dict[str, Any], addresses: Mapping[str, str]) -> None:
    message["output"] = resolve_links_in_items(message.get("output"), addresses)


def _put_result(
    message: dict[str, Any], item: dict[str, Any] | None, addresses: Mapping[str, str]
) -> None:
    """The item, if this message has items, and what has to go or to change with it."""
    _forget_empty_error(message)
    if item:
        _resolve_links_of(message, addresses)
        put_into_message(message, item)


def put_into_message(message: dict[str, Any], item: dict[str, Any]) -> None:
    """Put an item into a message, and the text of all items where search looks for it."""
    message["output"] = put_item(message.get("output"), item)
    before = str(message.get("content") or "")
    message["content"] = plain_content(message["output"], before)


def _is_in_order(
    message: dict[str, Any], run_id: str, item: dict[str, Any] | None
) -> bool:
    shown = item is None or has_item(message.get("output"), item)
    error = _is_empty_error(message.get("error"))
    return shown and not error and not _says_running(message, run_id)


def _add_status(message: dict[str, Any], status: dict[str, Any]) -> None:
    message["statusHistory"] = [*(message.get("statusHistory") or []), status]


def _says_running(message: dict[str, Any], run_id: str) -> bool:
    mark = unfinished_mark(message.get("statusHistory"))
    return mark is not None and mark.get("run") == run_id


def _forget_empty_error(message: dict[str, Any]) -> None:
    if _is_empty_error(message.get("error")):
        # To delete the key would leave it in the second of Open WebUI's two stores.
        message["error"] = None


def _is_empty_error(error: Any) -> bool:
    """The browser notes such an error when a person leaves the page during a run."""
    return isinstance(error, dict) and error.get("content") in ({}, "{}", "", None)
