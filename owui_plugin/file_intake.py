"""The files of a chat on their way into a run: found, checked, opened."""

import asyncio
import logging
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from owui_plugin.chat_files import (
    ChatFile,
    arrange_files,
    attached_files,
    branch_to,
    has_run,
)
from owui_plugin.host_files import (
    FileRecord,
    chat_messages,
    file_records,
    local_path,
    message_file_ids,
)
from sandbox_core.limits import MIB, Limits
from sandbox_core.models import InputFile
from sandbox_core.spool import spooled_file

__all__ = ["FilesIn", "files_for_run"]

_intake_log = logging.getLogger("run_code.file_intake")
_FETCH_SECONDS = 60.0
_FOLDER_PAGE = 4096
_DELETED = "it was deleted"
_NEVER_STORED = "a temporary chat does not store what is attached to it"
_FOREIGN = "it belongs to someone else"
_UNREADABLE = "it could not be read"


@dataclass(frozen=True, slots=True)
class FilesIn:
    """What a run finds in its work folder, with the id of each stored file by its name, and a
    sentence for each that is missing or renamed."""

    files: tuple[InputFile, ...] = ()
    ids: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names in the work folder, sorted."""
        return sorted(file.name for file in self.files)

    def close(self) -> None:
        """The run has read them. Called when it is over."""
        for file in self.files:
            if file.content is not None:
                file.content.close()


async def files_for_run(
    user_id: str,
    chat_id: str,
    message_id: str,
    limits: Limits,
    attached: Sequence[ChatFile] = (),
) -> FilesIn:
    """The files of a chat up to a message, opened for a run of this person.

    ``attached``: files that a temporary chat, which is stored nowhere, says that it has. A
    file that cannot be had is told of in the notes; nothing is raised for it.
    """
    try:
        found = [*attached, *await _find_files(chat_id, message_id)]
        records = await file_records({file.file_id for file in found})
    except Exception:
        _intake_log.exception("the files of a chat could not be looked up")
        return FilesIn(notes=("The files of this chat could not be looked up.",))
    in_question = {file.file_id for file in attached}
    usable, notes = _sort_out(found, records, user_id, in_question)
    placed, renamed = arrange_files(usable)
    opened, missing = await _open_files(placed, records, limits)
    ids = {file.name: file.file_id for file in placed}
    return FilesIn(tuple(opened), ids, (*notes, *renamed, *missing))


async def _find_files(chat_id: str, message_id: str) -> list[ChatFile]:
    """Attached and made files along the branch, the oldest first."""
    found: list[ChatFile] = []
    for message in branch_to(await chat_messages(chat_id), message_id):
        found += attached_files(message)
        if has_run(message) or message["id"] == message_id:
            found += await _made_files(chat_id, message["id"])
    return found


async def _made_files(chat_id: str, message_id: str) -> list[ChatFile]:
    records = await file_records(await message_file_ids(chat_id, message_id))
    made = [record for record in records.values() if record.mark.get("kind") == "made"]
    made.sort(key=lambda record: float(record.mark.get("at") or 0))
    return [
        ChatFile(record.file_id, str(record.mark.get("path") or record.name), made=True)
        for record in made
    ]


def _sort_out(
    found: Iterable[ChatFile],
    records: dict[str, FileRecord],
    user_id: str,
    in_question: set[str],
) -> tuple[list[ChatFile], list[str]]:
    """The files that this person may use, and a sentence for each other one. ``in_question``:
    ids that only the question of a temporary chat tells; the browser may have made them up.
    """
    usable, notes = [], []
    for file in found:
        record = records.get(file.file_id)
        name = file.name or (record.name if record else "")
        if record is None or record.user_id != user_id:
            gone = _NEVER_STORED if file.file_id in in_question else _DELETED
            reason = gone if record is None else _FOREIGN
            notes.append(_missing_note(name, reason))
        else:
            usable.append(ChatFile(file.file_id, name, file.made))
    return usable, notes


async def _open_files(
    placed: Sequence[ChatFile], records: dict[str, FileRecord], limits: Limits
) -> tuple[list[InputFile], list[str]]:
    """Opens the newest first, because they are what the question is about. A quarter of the
    work folder stays free for the program."""
    room = limits.work_mib * MIB * 3 // 4
    files, notes = [], []
    for file in reversed(placed):
        try:
            content = await asyncio.wait_for(
                asyncio.to_thread(_open_stored, records[file.file_id].path),
                _FETCH_SECONDS,
            )
        except Exception:  # a storage provider raises whatever it likes
            _intake_log.warning("a file could not be read", exc_info=True)
            notes.append(_missing_note(file.name, _UNREADABLE))
            continue
        taken = InputFile(file.name, content=content)
        size = taken.size
        needed = -(-size // _FOLDER_PAGE) * _FOLDER_PAGE
        if needed > room:
            content.close()
            reason = f"there is no room in it for {size / MIB:.1f} MB"
            notes.append(_missing_note(file.name, reason))
            continue
        room -= needed
        files.append(taken)
    return files, notes


def _missing_note(name: str, reason: str) -> str:
    return f"“{name}” is not in the work folder: {reason}."


def _open_stored(path: str) -> IO[bytes]:
    if not path:
        raise FileNotFoundError("a file without a path")
    local = local_path(path)
    source = local.open("rb")
    if local == Path(path):
        return source
    # A remote storage writes each download to the same place: the next one would overwrite
    # the bytes under a run that still reads them.
    with source:
        copy = spooled_file()
        shutil.copyfileobj(source, copy)
    return copy
