"""What a run made, kept as files of the person in Open WebUI's own store."""

import asyncio
import errno
import hashlib
import logging
import time
import uuid
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import IO

from owui_plugin.displays import display_files
from owui_plugin.file_names import download_name, unused_name
from owui_plugin.host_files import (
    FileRecord,
    data_folder,
    delete_bytes,
    delete_file,
    files_of_runs,
    insert_record,
    link_to_chat,
    write_bytes,
)
from owui_plugin.media_types import can_preview, media_type
from owui_plugin.quota import (
    Quota,
    oldest_to_delete,
    refusals,
    storage_lock,
    usage_of,
)
from sandbox_core.errors import SandboxError
from sandbox_core.models import OutputFile, RunResult, SkippedFile
from sandbox_core.spool import spooled_file

__all__ = [
    "ARCHIVE_ABOVE",
    "KeptFile",
    "KeptFiles",
    "Place",
    "keep_files",
]

ARCHIVE_ABOVE = 10  # files of one run; more are offered in a ZIP archive too
_ARCHIVE_NAME = "files.zip"
_OUTPUT_NAME = "full-output.txt"
_PREVIEW_BYTES = 2048
_HASH_CHUNK = 1 << 20
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_EMPTY = "empty"

_store_log = logging.getLogger("run_code.file_store")


@dataclass(frozen=True, slots=True)
class Place:
    """Whose files they are, and the message that they belong to."""

    user_id: str
    chat_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A stored file. ``kind``: ``shown`` (a figure or another display), ``made`` by the
    program, its whole ``output``, or an ``archive`` of all that it made; ``start`` is the
    first of its text, if it is one worth showing.
    """

    name: str
    size: int
    file_id: str
    kind: str
    media: str
    start: bytes = b""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What was stored of a run, what was not, and the names of old files that had to go."""

    files: tuple[KeptFile, ...] = ()
    refused: tuple[SkippedFile, ...] = ()
    deleted: tuple[str, ...] = ()

    def applied_to(self, result: RunResult) -> RunResult:
        """The result with the files and displays that are really there."""
        made, shown = (
            {file.name for file in self.files if file.kind == kind}
            for kind in ("made", "shown")
        )
        return replace(
            result,
            files=tuple(file for file in result.files if file.name in made),
            displays=tuple(one for one in result.displays if one.name in shown),
            skipped=(*result.skipped, *self.refused),
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    file: OutputFile
    kind: str


async def keep_files(
    place: Place, result: RunResult, quota: Quota, with_output: bool
) -> KeptFiles:
    """Store the files of a run for a person, as far as the quota goes; never raises for what
    the store does. ``with_output``: the whole output too, because the chat shows a part.
    """
    empty = [SkippedFile(file.name, _EMPTY) for file in result.files if not file.size]
    # What was shown is small, and what a person looks for first.
    candidates = [_Candidate(file, "shown") for file in display_files(result)]
    candidates += [_Candidate(file, "made") for file in result.files if file.size]
    if with_output:
        candidates += [_Candidate(file, "output") for file in _whole_output(result)]
    archive = await asyncio.to_thread(_archive_of, result.files)
    candidates += [_Candidate(file, "archive") for file in archive]
    if not candidates:
        return KeptFiles(refused=tuple(empty))
    deleted: list[str] = []
    try:
        async with storage_lock(data_folder(), place.user_id):
            if quota.delete_oldest:
                await _make_room(place, candidates, quota, deleted)
            kept, refused = await _keep_within_quota(
                place, result.run_id, candidates, quota
            )
        await link_to_chat(
            place.chat_id,
            place.message_id,
            [file.file_id for file in kept],
            place.user_id,
        )
    except Exception as error:
        _store_log.exception("the files of run %s could not be stored", result.run_id)
        reason = str(error) if isinstance(error, SandboxError) else _why_not(error)
        kept = []
        refused = [SkippedFile(entry.name, reason) for entry in result.contents]
    finally:
        for candidate in candidates:
            candidate.file.content.close()
    return KeptFiles(tuple(kept), (*empty, *refused), tuple(deleted))


async def _make_room(
    place: Place, candidates: Sequence[_Candidate], quota: Quota, deleted: list[str]
) -> None:
    """Delete the oldest files of a person as far as is needed, and note their names."""
    sizes = [candidate.file.size for candidate in candidates]
    stored = await files_of_runs(place.user_id)
    for file in oldest_to_delete(sizes, stored, quota):
        try:
            if await delete_file(file):
                deleted.append(file.name)
        except Exception:  # a storage provider raises whatever it likes
            _store_log.exception("an old file could not be deleted")


async def _keep_within_quota(
    place: Place, run_id: str, candidates: Sequence[_Candidate], quota: Quota
) -> tuple[list[KeptFile], list[SkippedFile]]:
    kept, refused = [], []
    usage = usage_of(await files_of_runs(place.user_id))
    reasons = refusals([entry.file.size for entry in candidates], usage, quota)
    for candidate, reason in zip(candidates, reasons, strict=True):
        stored = None
        if not reason:
            stored, reason = await _keep_one(place, run_id, candidate)
        if stored is not None:
            kept.append(stored)
        elif candidate.kind != "archive":
            refused.append(SkippedFile(candidate.file.name, reason))
    return kept, refused


async def _keep_one(
    place: Place, run_id: str, candidate: _Candidate
) -> tuple[KeptFile | None, str]:
    """The stored file, or None and why not."""
    file, file_id = candidate.file, str(uuid.uuid4())
    # No ending: where Open WebUI takes the type from this name, it must not be a page.
    stored_name = f"{file_id}_run_code"
    mark = {
        "run": run_id,
        "kind": candidate.kind,
        "path": file.name,
        "at": time.time(),
    }
    media = media_type(file.name)
    try:
        digest, start = await asyncio.to_thread(_look_into, file.content)
        path = await asyncio.to_thread(write_bytes, file.content, stored_name)
        name = download_name(file.name)
        record = FileRecord(file_id, place.user_id, name, path, mark)
        if await insert_record(record, media, file.size, digest) is None:
            raise RuntimeError("the database did not take the record")
    except Exception as error:  # a storage provider raises whatever it likes
        _store_log.exception("a file of run %s could not be stored", run_id)
        await asyncio.to_thread(delete_bytes, stored_name)
        return None, _why_not(error)
    start = start if can_preview(media) else b""
    return (
        KeptFile(file.name, file.size, file_id, candidate.kind, media, start),
        "",
    )


def _whole_output(result: RunResult) -> list[OutputFile]:
    """The output as a file; nothing when a part of it is lost."""
    if result.full_output is not None:
        return [result.full_output]
    if result.output.omitted:
        return []
    data = str(result.output).encode("utf-8", "replace")
    return [OutputFile(_OUTPUT_NAME, len(data), BytesIO(data))]


def _look_into(content: IO[bytes]) -> tuple[str, bytes]:
    """SHA-256 in hex and first bytes of a file, which is left at its start."""
    content.seek(0)
    start = content.read(_PREVIEW_BYTES)
    digest = hashlib.sha256(start)
    while chunk := content.read(_HASH_CHUNK):
        digest.update(chunk)
    content.seek(0)
    return digest.hexdigest(), start


def _why_not(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
        return "the server's disk is full. Ask your administrator to make room"
    return "the server could not store it. Ask your administrator to look at its log"


def _archive_of(files: Sequence[OutputFile]) -> list[OutputFile]:
    """One archive of all files when there are many, else nothing. A host without room for it
    goes without."""
    if len(files) <= ARCHIVE_ABOVE or not any(file.size for file in files):
        return []
    content = spooled_file()
    try:
        with zipfile.ZipFile(
            content, "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive:
            _fill_archive(archive, files)
        size = content.tell()
        content.seek(0)
    except OSError:
        _store_log.exception("an archive of files could not be made")
        content.close()
        return []
    return [OutputFile(_ARCHIVE_NAME, size, content)]


def _fill_archive(archive: zipfile.ZipFile, files: Sequence[OutputFile]) -> None:
    taken: set[str] = set()
    for file in files:
        safe = "/".join(download_name(part) for part in file.name.split("/"))
        name = unused_name(safe, taken)
        taken.add(name)
        file.content.seek(0)
        with archive.open(name, "w", force_zip64=True) as member:
            while chunk := file.content.read(_HASH_CHUNK):
                member.write(chunk)
        file.content.seek(0)
