"""Tells an administrator that a newer version is out, where a setting says where to look.

The address gives the newest plugin file itself; its head has the version. It is asked at most
once in three days, whatever comes of it, and never while somebody waits. requests takes the
proxies of the environment.
"""

import asyncio
import json
import logging
import re
import time
from contextlib import closing
from pathlib import Path

from owui_plugin.host import Emitter, emit, is_open_webui_here
from owui_plugin.host_files import data_folder
from sandbox_core.payload import BUILD_ID

__all__ = ["newer_version", "newest_version", "tell_of_update"]

_SECONDS_BETWEEN = 3 * 24 * 3600
_ANSWER_SECONDS = 5
_HEAD_BYTES = 4096
_MEMORY = "run_code_update.json"
_VERSION_LINE = re.compile(r"^version:\s*(\d+(?:\.\d+){0,3})\s*$", re.MULTILINE)
_update_log = logging.getLogger("run_code.update")


async def tell_of_update(address: str, emitter: Emitter | None) -> None:
    """Show a notification when there is a newer version. Silent in every other case."""
    if not is_open_webui_here():
        return
    memory = data_folder() / _MEMORY
    newest = await asyncio.to_thread(newest_version, address, memory)
    if newer_version(newest, BUILD_ID.partition("+")[0]):
        text = (
            f"Run code {newest} is out. docs/setup.md says how to update (“Updating”)."
        )
        await emit(emitter, "notification", {"type": "info", "content": text})


def newest_version(address: str, memory: Path, now: float | None = None) -> str:
    """The version that the address has, if it is time to ask again; else, and when nobody
    answers, empty. ``memory`` is the file that remembers when that was."""
    import requests

    now = time.time() if now is None else now
    if 0 <= now - _asked_at(memory) < _SECONDS_BETWEEN:
        return ""
    try:
        memory.write_text(json.dumps({"asked": now}), "utf-8")
        with closing(
            requests.get(address, timeout=_ANSWER_SECONDS, stream=True)
        ) as answer:
            answer.raise_for_status()
            head = next(answer.iter_content(_HEAD_BYTES), b"")
    except OSError as error:  # those of requests are such, too
        _update_log.info("no word of a newer version: %r", error)
        return ""
    found = _VERSION_LINE.search(head.decode("utf-8", "replace"))
    return found[1] if found else ""


def newer_version(version: str, ours: str) -> bool:
    """Whether a version such as 1.10.0 comes after ours."""
    return _as_numbers(version) > _as_numbers(ours)


def _as_numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _asked_at(memory: Path) -> float:
    try:
        return float(json.loads(memory.read_text("utf-8"))["asked"])
    except (OSError, ValueError, KeyError, TypeError):
        return float("-inf")
