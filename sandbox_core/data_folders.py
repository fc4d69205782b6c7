"""Folders of the container host that an administrator shows to every sandbox, read-only.

What is written of them is checked when settings are read; the folders themselves before runs,
on this machine's file system. So the engine has to be on this machine, and the folder to be
seen under the same path here: what cannot be looked at is refused.
"""

import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sandbox_core.errors import InvalidRequest

__all__ = ["DataFolder", "DataFolders", "parse_data_folders"]

_ROOT = "/data"
_MOST_FOLDERS = 16
_MOST_ENTRIES = 100_000  # looked at for sockets, which gVisor lets nobody open anyway
_STILL_GOOD_SECONDS = 60.0
_ENTRY = re.compile(r"([A-Za-z0-9][\w.-]{0,63})\s*=\s*(/.*)", re.ASCII)
_SYSTEM_FOLDERS = tuple(
    Path(path)
    for path in (
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
        "/usr",
        "/var/lib/containerd",
        "/var/lib/containers",
        "/var/lib/docker",
        "/var/lib/kubelet",
        "/var/run",
    )
)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder of the container host, and the name that it has in the sandbox."""

    name: str
    path: str

    @property
    def target(self) -> str:
        """Where a program finds it."""
        return f"{_ROOT}/{self.name}"


def parse_data_folders(text: str) -> tuple[DataFolder, ...]:
    """Data folders from ``name=/path`` entries with commas or line ends between them.

    Raises InvalidRequest for an entry of another form, a name that is used twice, more than
    16 folders, and a path that is, is in, or holds a folder of the system.
    """
    entries = [entry.strip() for entry in re.split(r"[,\n]", text)]
    folders = tuple(_parse_entry(entry) for entry in entries if entry)
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"There are two data folders with the name “{name}”.")
    if len(folders) > _MOST_FOLDERS:
        raise InvalidRequest(f"There may be {_MOST_FOLDERS} data folders at most.")
    return folders


def _parse_entry(entry: str) -> DataFolder:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise InvalidRequest(
            "A data folder is written name=/path/of/the/folder, the name in letters, digits, "
            "dots, dashes and underscores."
        )
    folder = DataFolder(match[1], os.path.normpath("/" + match[2].lstrip("/")))
    _refuse_system_folder(folder, Path(folder.path))
    return folder


def _refuse_system_folder(folder: DataFolder, path: Path) -> None:
    for system in _SYSTEM_FOLDERS:
        if _touches(path, system):
            raise _folder_refusal(
                folder, f"it is, holds or lies in {system}, which is the system's"
            )


def _touches(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


class DataFolders:
    """The data folders of a runner, looked at again from time to time. Thread-safe.

    ``forbidden``: folders of this machine that none of them may be, hold or lie in.
    ``engine_is_here``: whether the engine's host is this machine.
    """

    def __init__(
        self,
        folders: Sequence[DataFolder] = (),
        forbidden: Sequence[Path] = (),
        engine_is_here: bool = True,
    ) -> None:
        self._folders = tuple(folders)
        self._forbidden = tuple(path.resolve() for path in forbidden)
        self._engine_is_here = engine_is_here
        self._lock = threading.Lock()
        self._checked: tuple[DataFolder, ...] = ()
        self._good_until = 0.0

    def checked(self) -> tuple[DataFolder, ...]:
        """The folders by their real paths. Called for each run; may look through them, which
        takes some time. Raises InvalidRequest, with the folder's name and the reason.
        """
        if not self._folders:
            return ()
        with self._lock:
            if time.monotonic() > self._good_until:
                self._checked = tuple(self._check(folder) for folder in self._folders)
                self._good_until = time.monotonic() + _STILL_GOOD_SECONDS
            return self._checked

    def _check(self, folder: DataFolder) -> DataFolder:
        if not self._engine_is_here:
            raise _folder_refusal(
                folder,
                "the container engine is on another machine, whose folders cannot be looked "
                "at from here. Run codebox there, and set CODEBOX_DATA_FOLDERS",
            )
        try:
            real = Path(folder.path).resolve(strict=True)
            is_folder = real.is_dir()
        except (
            OSError,
            RuntimeError,
        ):  # the latter: a loop of links, before Python 3.13
            is_folder = False
        if not is_folder:
            raise _folder_refusal(
                folder, "there is no such folder on this machine (or in this container)"
            )
        _refuse_system_folder(folder, real)
        if any(_touches(real, path) for path in self._forbidden):
            raise _folder_refusal(
                folder, "Open WebUI's own data is in it, or it is in there"
            )
        if _holds_socket(real):
            raise _folder_refusal(
                folder, "it holds a socket, behind which may be a service"
            )
        return DataFolder(folder.name, str(real))


def _holds_socket(path: Path) -> bool:
    modes = islice(_modes_under(path), _MOST_ENTRIES)
    return any(stat.S_ISSOCK(mode) for mode in modes)


def _modes_under(path: Path) -> Iterator[int]:
    """The file type and permission bits of everything in a folder; links are not followed."""
    folders = [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    yield entry.stat(follow_symlinks=False).st_mode
        except OSError:  # gone meanwhile, or not ours to look into
            continue


def _folder_refusal(folder: DataFolder, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"The data folder “{folder.name}” cannot be used, so nothing is run: {reason}. An "
        "administrator should correct the setting data_folders."
    )
