"""The folders of embedded sandboxes: what Docker keeps in labels, and the processes.

``STATE/ID/`` holds ``lease.json`` (owner, run, expiry), the OCI bundle and runsc's own state.
A folder comes into being with its lease in it, so that no crash leaves one without.
"""

import json
import os
import secrets
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import SandboxSpec
from sandbox_core.errors import StartFailed
from sandbox_core.leases import Lease

__all__ = [
    "StateFolder",
    "default_state_folder",
    "end_processes",
    "remove_folder",
    "sandbox_pid",
]

# A Unix socket's path may have 107 characters, and runsc puts one below the sandbox's folder.
_LONGEST_STATE_PATH = 60
_END_SECONDS = 5.0
_NO_FOLDER = (
    "The folder for running sandboxes cannot be used, so nothing was run. An administrator "
    "should run the doctor (docs/setup.md)."
)


def default_state_folder() -> Path:
    """Where sandboxes are kept when no setting says: gone after a restart of the machine."""
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/run-code")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if (
        runtime
        and len(runtime) < _LONGEST_STATE_PATH // 2
        and os.access(runtime, os.W_OK)
    ):
        return Path(runtime) / "run-code"
    return Path(tempfile.gettempdir()) / f"run-code-{os.geteuid()}"


class StateFolder:
    """All embedded sandboxes of one place, whoever owns them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self, spec: SandboxSpec) -> Path:
        """A new sandbox's folder with its lease; its name is the sandbox's id. Raises
        StartFailed."""
        try:
            self._prepare()
            sandbox_id = secrets.token_hex(6)
            # Hidden until it is whole: leftovers() must not see a folder without a lease.
            draft = self._path / f".{sandbox_id}"
            draft.mkdir(mode=0o700)
            (draft / "root").mkdir()
            lease = {
                "owner": spec.owner,
                "run": spec.run_id,
                "expires": int(spec.expires_at),
            }
            (draft / "lease.json").write_text(json.dumps(lease))
            return draft.rename(self._path / sandbox_id)
        except OSError as error:
            raise StartFailed(_NO_FOLDER, repr(error)) from error

    def leases(self) -> list[Lease]:
        """One for each sandbox that is there."""
        found = (_lease_in(folder) for folder in self._path.glob("[0-9a-f]*"))
        return [lease for lease in found if lease is not None]

    def folder_of(self, sandbox_id: str) -> Path:
        """Where a sandbox is kept, if it is there."""
        return self._path / sandbox_id

    def _prepare(self) -> None:
        """Only we may look into it, and nobody else can have made it for us."""
        if len(str(self._path)) > _LONGEST_STATE_PATH:
            raise OSError(f"longer than {_LONGEST_STATE_PATH} characters: {self._path}")
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._path.lstat()
        private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        if not private or status.st_uid != os.geteuid():
            raise OSError(f"not a folder of ours alone: {self._path}")


def end_processes(folder: Path) -> bool:
    """SIGKILL for each process of a sandbox, and wait until none is left. False when one
    stays. Whoever started them: each has the sandbox's own ``--root`` in its command line.
    """
    deadline = Deadline(_END_SECONDS)
    while pids := _processes_of(folder):
        if deadline.passed():
            return False
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return True


def remove_folder(folder: Path) -> None:
    """Remove what was kept of a sandbox; gone already is fine."""
    shutil.rmtree(folder, ignore_errors=True)


def sandbox_pid(folder: Path) -> int:
    """The process that is the sandbox, as runsc's own state names it; 0 when not yet."""
    for path in (folder / "root").glob("*.state"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(path.read_text())["sandbox"]["pid"])
    return 0


def _processes_of(folder: Path) -> list[int]:
    mark = f"--root={folder}/root".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if mark in Path(entry.path, "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def _lease_in(folder: Path) -> Lease | None:
    try:
        values: Any = json.loads((folder / "lease.json").read_text())
        return Lease(
            folder.name,
            str(values["run"]),
            str(values["owner"]),
            float(values["expires"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
