"""Which files belong to a chat up to a message, and under which names. Pure functions.

These are the files that people attached to the messages of the branch, and those that runs
under its messages made. A file that a run made takes the place of an older one of its name,
as in a folder; two attached files of one name are two files, and the second is renamed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from owui_plugin.file_names import unused_name, work_name
from owui_plugin.output_items import MARK, is_result_item
from sandbox_core.archive import is_input_name
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome

__all__ = [
    "ChatFile",
    "arrange_files",
    "attached_files",
    "branch_to",
    "files_of_question",
    "has_run",
    "work_folder_note",
]

_FILE_ADDRESS = re.compile(r"(?:^|/api/v1/files/)([\w-]{1,64})(?:/content)?(?:\?.*)?$")
_ATTACHMENTS = ("file", "image")
_LONGEST_BRANCH = 10_000
_MOST_NAMES = 20
_MISSING_FILE = re.compile(r"No such file or directory|FileNotFoundError|ENOENT")


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A stored file and its name: the person's own, or the path in the work folder of the
    run that made it (``made``)."""

    file_id: str
    name: str
    made: bool = False


def branch_to(messages: Mapping[str, Any], message_id: str) -> list[dict[str, Any]]:
    """The messages from the first one to this one, by their parents, the oldest first."""
    branch: list[dict[str, Any]] = []
    seen: set[str] = set()
    current: Any = message_id
    while isinstance(current, str) and current not in seen:
        message = messages.get(current)
        if not isinstance(message, dict) or len(branch) >= _LONGEST_BRANCH:
            break
        seen.add(current)
        branch.append({**message, "id": current})
        current = message.get("parentId")
    return branch[::-1]


def attached_files(message: Mapping[str, Any]) -> list[ChatFile]:
    """The files that a person attached to a message: documents and images."""
    entries = message.get("files")
    if message.get("role") != "user" or not isinstance(entries, list):
        return []
    found = (_attached_file(entry) for entry in entries if isinstance(entry, dict))
    return [file for file in found if file is not None]


def files_of_question(question: Mapping[str, Any]) -> list[ChatFile]:
    """The files of a temporary chat's question. A document is not uploaded there, only its
    text is sent along: it is listed all the same, because a person expects it."""
    texts = [
        ChatFile(str(entry.get("id") or ""), str(entry.get("name") or ""))
        for entry in _dicts_in(question.get("files"))
        if entry.get("type") == "text"
    ]
    return [*attached_files({**question, "role": "user"}), *texts]


def _attached_file(entry: Mapping[str, Any]) -> ChatFile | None:
    if entry.get("type") not in _ATTACHMENTS:
        return None
    address = _FILE_ADDRESS.search(str(entry.get("id") or entry.get("url") or ""))
    if address is None:
        return None
    return ChatFile(address[1], str(entry.get("name") or ""))


def has_run(message: Mapping[str, Any]) -> bool:
    """Whether code was run under a message, or by it: only then can it have made files."""
    history, output = message.get("statusHistory"), message.get("output")
    return any(MARK in entry for entry in _dicts_in(history)) or any(
        is_result_item(entry) for entry in _dicts_in(output)
    )


def _dicts_in(entries: Any) -> Iterable[dict[str, Any]]:
    found = entries if isinstance(entries, list) else []
    return (entry for entry in found if isinstance(entry, dict))


def arrange_files(found: Sequence[ChatFile]) -> tuple[list[ChatFile], list[str]]:
    """The files for the work folder, each name once, in the order given (the oldest first);
    and a sentence for each file that had to be renamed."""
    placed: dict[str, ChatFile] = {}
    attached: set[str] = set()
    notes = []
    for file in found:
        if file.made:
            if is_input_name(file.name):  # else no program can have it under this name
                _place_made(placed, file)
        elif file.file_id not in attached:
            attached.add(file.file_id)
            own = work_name(file.name)
            folders = {name.partition("/")[0] for name in placed}
            name = unused_name(own, folders | placed.keys())
            placed[name] = ChatFile(file.file_id, name)
            if name != own:
                notes.append(
                    f"Another file is called “{own}” too; it is here as “{name}”."
                )
    return list(placed.values()), notes


def _place_made(placed: dict[str, ChatFile], file: ChatFile) -> None:
    """What the run found under this name, as a file or a folder, it has replaced."""
    name = file.name
    for other in list(placed):
        if other.startswith(name + "/") or name.startswith(other + "/"):
            del placed[other]
    placed.pop(name, None)  # the newest comes last
    placed[name] = file


def work_folder_note(
    result: RunResult, names: Sequence[str], data_targets: Sequence[str] = ()
) -> str:
    """What was in the work folder, and which data folders there are, after a run that missed
    a file; else empty."""
    failed = result.outcome is Outcome.FAILED
    if not failed or not _MISSING_FILE.search(str(result.output)[-8192:]):
        return ""
    data = (
        f" Data folders, read-only: {', '.join(data_targets)}." if data_targets else ""
    )
    if not names:
        return "The work folder was empty at the start: this chat has no files." + data
    shown = ", ".join(names[:_MOST_NAMES])
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"In the work folder at the start: {shown}{more}.{data}"
