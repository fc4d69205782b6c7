"""What we ask of Open WebUI's file store, each request behind one small function.

Verified with Open WebUI 0.12.4, like the host module. Nothing here decides anything; whatever
Open WebUI or its storage provider raises is passed on. Functions that are not ``async`` block.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from owui_plugin.host import is_open_webui_here, is_saved_chat, settle
from owui_plugin.output_items import MARK
from owui_plugin.quota import StoredFile

__all__ = [
    "FileRecord",
    "chat_messages",
    "data_folder",
    "delete_bytes",
    "delete_file",
    "file_records",
    "files_of_runs",
    "insert_record",
    "link_to_chat",
    "local_path",
    "message_file_ids",
    "write_bytes",
]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of Open WebUI. ``path`` is the storage's own. ``mark`` is our note on a file that
    a run made, else empty."""

    file_id: str
    user_id: str
    name: str
    path: str
    mark: dict[str, Any]


async def chat_messages(chat_id: str) -> dict[str, Any]:
    """The messages of a stored chat by id; empty for a temporary one."""
    if not is_saved_chat(chat_id):
        return {}
    from open_webui.models.chats import Chats

    return await settle(Chats.get_messages_map_by_chat_id(chat_id)) or {}


async def message_file_ids(chat_id: str, message_id: str) -> list[str]:
    """Ids of the files that are linked to a message of a chat; none in versions of Open WebUI
    that know no such links."""
    from open_webui.models.chats import Chats

    if not hasattr(Chats, "get_chat_files_by_chat_id_and_message_id"):
        return []
    links = await settle(
        Chats.get_chat_files_by_chat_id_and_message_id(chat_id, message_id)
    )
    return [link.file_id for link in links]


async def link_to_chat(
    chat_id: str, message_id: str, file_ids: list[str], user_id: str
) -> None:
    """Link files to a message: whoever may read the shared chat may then read them."""
    from open_webui.models.chats import Chats

    if is_saved_chat(chat_id) and hasattr(Chats, "insert_chat_files"):
        await settle(Chats.insert_chat_files(chat_id, message_id, file_ids, user_id))


async def file_records(file_ids: Iterable[str]) -> dict[str, FileRecord]:
    """The files among these that exist, by id."""
    wanted = list(file_ids)
    if not wanted:
        return {}
    from open_webui.models.files import Files

    found = await settle(Files.get_files_by_ids(wanted))
    return {file.id: _record_of(file) for file in found}


def _record_of(file: Any) -> FileRecord:
    meta = file.meta if isinstance(file.meta, dict) else {}
    mark = meta.get(MARK)
    return FileRecord(
        file.id,
        str(file.user_id),
        str(meta.get("name") or file.filename),
        str(file.path or ""),
        mark if isinstance(mark, dict) else {},
    )


async def insert_record(
    record: FileRecord, kind: str, size: int, digest: str
) -> FileRecord | None:
    """Make a stored file one of its user's files. ``kind`` is its MIME type, ``size`` in
    bytes, ``digest`` the SHA-256 in hex. None when the database did not take it."""
    from open_webui.models.files import FileForm, Files

    meta = {
        "name": record.name,
        "content_type": kind,
        "size": size,
        MARK: record.mark,
    }
    form = FileForm(
        id=record.file_id,
        hash=digest,
        filename=record.name,
        path=record.path,
        # Nothing waits to be read into the search index.
        data={"status": "completed"},
        meta=meta,
    )
    return record if await settle(Files.insert_new_file(record.user_id, form)) else None


async def files_of_runs(user_id: str) -> list[StoredFile]:
    """What a person keeps of files that runs made."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.files import File
    from sqlalchemy import String, cast, select

    query = (
        select(File.id, File.filename, File.path, File.meta)
        .where(File.user_id == user_id)
        .where(cast(File.meta, String).like(f'%"{MARK}"%'))
    )
    async with get_async_db_context() as database:
        rows = (await database.execute(query)).all()
    return [
        StoredFile(
            file_id,
            str(meta.get("name") or filename),
            int(meta.get("size") or 0),
            float(meta[MARK].get("at") or 0),
            str(path or ""),
        )
        for file_id, filename, path, meta in rows
        if isinstance(meta, dict) and isinstance(meta.get(MARK), dict)
    ]


async def delete_file(file: StoredFile) -> bool:
    """Delete a file and its bytes; False, and nothing is deleted, when it is in use as
    somebody's knowledge. Raises what the storage raises: then its bytes are left."""
    from open_webui.models.files import Files
    from open_webui.models.knowledge import Knowledges
    from open_webui.storage.provider import Storage

    lookup = getattr(Knowledges, "get_knowledges_by_file_id", None)
    if lookup is not None and await settle(lookup(file.file_id)):
        return False
    if not await settle(Files.delete_file_by_id(file.file_id)):
        return False
    await asyncio.to_thread(Storage.delete_file, file.path)
    return True


def local_path(path: str) -> Path:
    """A local file with the bytes at a path of the storage, which may have to be fetched."""
    from open_webui.storage.provider import Storage

    return Path(Storage.get_file(path))


def write_bytes(content: IO[bytes], name: str) -> str:
    """Store the bytes of an open file under a name of our own; returns the storage's path."""
    from open_webui.storage.provider import Storage

    return str(Storage.upload_file(content, name, {})[1])


def delete_bytes(name: str) -> None:
    """Remove what write_bytes left on this server under this name, if anything."""
    from open_webui.config import UPLOAD_DIR

    (Path(UPLOAD_DIR) / name).unlink(missing_ok=True)


def data_folder() -> Path:
    """Open WebUI's data folder, which all its workers on this server share. Raises
    LookupError where there is no Open WebUI in this process."""
    if not is_open_webui_here():
        raise LookupError("Open WebUI does not run in this process.")
    from open_webui.env import DATA_DIR

    return Path(DATA_DIR)
