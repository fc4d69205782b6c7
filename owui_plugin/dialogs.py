"""Questions to the person who clicked. No dialog is possible without a live page: each
question then has an answer of its own, and none waits for ever."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from owui_plugin.blocks import CodeBlock
from owui_plugin.host import settle
from sandbox_core.languages import find_language, known_languages
from sandbox_core.languages_interpreted import PYTHON

__all__ = [
    "CHECK",
    "ask_to_check",
    "ask_to_stop",
    "choose_blocks",
    "choose_language",
    "show_report",
]

_dialogs_log = logging.getLogger("run_code.dialogs")
_PATIENCE_SECONDS = 120.0
_ALL = "all"
# What choose_blocks gives for an administrator who wants the sandbox checked instead.
CHECK = "check"
_CHECK_OPTION = {"value": CHECK, "label": "Check the sandbox (takes half a minute)"}


class _NoDialog(Exception):
    """There is no page that could show a dialog."""


async def choose_blocks(
    caller: Any, blocks: Sequence[CodeBlock], is_admin: bool = False
) -> list[CodeBlock] | str:
    """Which of several blocks to run: all or one; empty when the person cancels, or does
    not answer. The last one when nobody can be asked. An administrator may choose CHECK.
    """
    if len(blocks) == 1:
        return list(blocks)
    options = [{"value": _ALL, "label": "All, in order, in one sandbox"}]
    options += [
        {
            "value": str(index),
            "label": f"{block.number}: {block.language} — {block.first_line()}",
        }
        for index, block in enumerate(blocks)
    ]
    if is_admin:
        options.append(_CHECK_OPTION)
    try:
        answer = await _select(caller, "Which code should run?", options, _ALL)
    except _NoDialog:
        return [blocks[-1]]
    if answer == CHECK and is_admin:
        return CHECK
    if answer == _ALL:
        return list(blocks)
    if answer.isdigit() and int(answer) < len(blocks):
        return [blocks[int(answer)]]
    return []


async def choose_language(caller: Any, block: CodeBlock) -> str:
    """The language for a block without a tag; empty when none was picked."""
    options = [
        {"value": entry.name, "label": entry.title} for entry in known_languages()
    ]
    title = f"In which language is “{block.first_line()}”?"
    try:
        answer = await _select(caller, title, options, PYTHON.name)
    except _NoDialog:
        return ""
    language = find_language(answer)
    return language.name if language else ""


async def ask_to_stop(caller: Any) -> bool:
    """Whether the person wants the running code stopped; only a clear yes is one."""
    question = {
        "title": "This code is still running",
        "message": "Stop it? What it printed so far is kept.",
    }
    try:
        return await _ask(caller, "confirmation", question) is True
    except _NoDialog:
        return False


async def ask_to_check(caller: Any, sentence: str) -> bool:
    """Whether an administrator, who reads why nothing ran, wants the sandbox checked."""
    question = {
        "title": "Check the sandbox?",
        "message": f"{sentence}\n\nAs an administrator you can have the sandbox checked now. It "
        "takes half a minute.",
    }
    try:
        return await _ask(caller, "confirmation", question) is True
    except _NoDialog:
        return False


async def show_report(caller: Any, title: str, text: str) -> None:
    """Show a text until it is clicked away."""
    with suppress(_NoDialog):
        await _ask(caller, "confirmation", {"title": title, "message": text})


async def _select(
    caller: Any, title: str, options: list[dict[str, str]], value: str
) -> str:
    question = {
        "title": "Run code",
        "message": title,
        "value": value,
        "input": {"type": "select", "options": options},
    }
    answer = await _ask(caller, "input", question)
    return answer if isinstance(answer, str) else ""


async def _ask(caller: Any, kind: str, question: dict[str, Any]) -> Any:
    """The page's answer; None when nobody answers. Raises _NoDialog when there is no page."""
    if caller is None:
        raise _NoDialog
    try:
        asked = settle(caller({"type": kind, "data": question}))
        answer = await asyncio.wait_for(asked, _PATIENCE_SECONDS)
    except TimeoutError:
        return None
    except Exception as error:
        _dialogs_log.info("a dialog could not be shown: %r", error)
        raise _NoDialog from error
    if isinstance(answer, dict):  # Open WebUI's word that no page is there
        raise _NoDialog
    return answer
