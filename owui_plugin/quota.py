"""How much a person may keep of what runs make: the arithmetic, and the lock around it.

The arithmetic is pure. The lock is a file in Open WebUI's data folder, so that two workers
of one server cannot both take the last free place.
"""

import asyncio
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox_core.errors import SandboxError
from sandbox_core.limits import MIB

__all__ = [
    "Quota",
    "StoreBusy",
    "StoredFile",
    "Usage",
    "oldest_to_delete",
    "refusals",
    "storage_lock",
    "usage_of",
]

_LOCK_FOLDER = "run-code-locks"
_STRIPES = 64  # lock files in all; people who share one only wait for each other
_LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.05
_FREE_SPACE = (
    "To free space, delete files in Settings → Data Controls → Manage Files, or ask your "
    "administrator for more"
)


class StoreBusy(SandboxError):
    """Another run of the same person is storing files, and does not come to an end."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What may be kept: megabytes of one run; files and megabytes of a person in all.
    ``delete_oldest``: whether old files make room for new ones."""

    run_mb: int
    user_files: int
    user_mb: int
    delete_oldest: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What a person keeps already: number of files, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a run made and that is kept: ``size`` in bytes, ``at`` in seconds since the
    epoch, ``path`` in Open WebUI's storage."""

    file_id: str
    name: str
    size: int
    at: float
    path: str


def usage_of(stored: Sequence[StoredFile]) -> Usage:
    """What these take."""
    return Usage(len(stored), sum(file.size for file in stored))


def oldest_to_delete(
    sizes: Sequence[int], stored: Sequence[StoredFile], quota: Quota
) -> list[StoredFile]:
    """The fewest of the oldest files without which all new ones can be kept that fit into the
    quota at all. ``sizes`` of the new ones in bytes."""
    answers = refusals(sizes, Usage(0, 0), quota)
    wanted = [size for size, reason in zip(sizes, answers, strict=True) if not reason]
    files, size = usage_of(stored).files + len(wanted), usage_of(stored).bytes + sum(
        wanted
    )
    deleted = []
    for file in sorted(stored, key=lambda entry: entry.at):
        if not wanted or (files <= quota.user_files and size <= quota.user_mb * MIB):
            break
        deleted.append(file)
        files, size = files - 1, size - file.size
    return deleted


def refusals(sizes: Sequence[int], usage: Usage, quota: Quota) -> list[str]:
    """For each file in order: why it cannot be kept; empty when it can.

    ``sizes`` in bytes. A file that is refused takes nothing from those after it.
    """
    kept_files, kept_bytes, answers = 0, 0, []
    for size in sizes:
        reason = _reason_against_keeping(
            size, Usage(usage.files + kept_files, usage.bytes), kept_bytes, quota
        )
        answers.append(reason)
        if not reason:
            kept_files += 1
            kept_bytes += size
    return answers


def _reason_against_keeping(
    size: int, usage: Usage, run_bytes: int, quota: Quota
) -> str:
    if run_bytes + size > quota.run_mb * MIB:
        return f"the files of one run may take {quota.run_mb} MB in all"
    if usage.files >= quota.user_files:
        return f"you keep {usage.files} of {quota.user_files} files from runs. {_FREE_SPACE}"
    if usage.bytes + run_bytes + size > quota.user_mb * MIB:
        used = (usage.bytes + run_bytes) / MIB
        return (
            f"your files from runs take {used:.1f} of {quota.user_mb} MB, and this one "
            f"needs {size / MIB:.1f} MB. {_FREE_SPACE}"
        )
    return ""


@asynccontextmanager
async def storage_lock(data_folder: Path, user_id: str) -> AsyncIterator[None]:
    """Hold a person's lock, over all workers of this server. It holds no thread while it
    waits. Raises StoreBusy after 30 s, OSError when the data folder cannot be written.
    """
    folder = data_folder / _LOCK_FOLDER
    folder.mkdir(exist_ok=True)
    stripe = int(hashlib.sha256(user_id.encode()).hexdigest(), 16) % _STRIPES
    descriptor = os.open(folder / f"{stripe}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        await _lock_file(descriptor)
        yield
    finally:
        os.close(descriptor)  # which unlocks it


async def _lock_file(descriptor: int) -> None:
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise StoreBusy("Other files are being stored. Run it again.") from None
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        else:
            return
