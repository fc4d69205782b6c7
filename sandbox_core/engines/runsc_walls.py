"""The limits around an embedded sandbox on the host's side: a control group where the host
lets us make one, else a watch of our own. Never none.

The guest's own watch, RLIMIT_NPROC and the sizes of the tmpfs folders are inside, and hold
in either case. These walls stand behind them, around gVisor itself.
"""

import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox_core.engines.runsc_state import sandbox_pid
from sandbox_core.hardening import CPU_PERIOD_US, cpu_quota_us

__all__ = [
    "ControlGroups",
    "HostLimits",
    "MemoryWatch",
    "Wall",
    "some_processors",
]

_PARENT = "run-code"
_WATCH_SECONDS = 0.03
_REMOVE_TRIES = 100
_SANDBOX_MEMORY = "/memfd:runsc-memory"


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What a whole sandbox may use of the host: bytes, threads, and processors."""

    memory: int
    threads: int
    cpus: float


class Wall(Protocol):
    """What stands around one sandbox."""

    cgroup: str

    def watch(self, on_excess: Callable[[], None]) -> None:
        """Called when the sandbox's processes have been started."""

    def broken(self) -> bool:
        """Whether the sandbox ran out of memory."""

    def remove(self) -> None:
        """Called when its processes are gone."""


class ControlGroup:
    """The control group of one sandbox, as a Wall."""

    def __init__(self, path: str, folders: dict[str, Path], is_v2: bool) -> None:
        self.cgroup = path
        self._folders = folders
        self._is_v2 = is_v2
        self._broken = False

    def set_limits(self, limits: HostLimits, controllers: frozenset[str]) -> None:
        """Make it, with the limits that these controllers can set. Raises OSError."""
        quota = cpu_quota_us(limits.cpus)
        values: dict[str, dict[str, int | str]]
        if self._is_v2:
            values = {
                "memory": {"memory.max": limits.memory, "memory.swap.max": 0},
                "pids": {"pids.max": limits.threads},
                "cpu": {"cpu.max": f"{quota} {CPU_PERIOD_US}"},
            }
        else:
            values = {
                "memory": {
                    "memory.limit_in_bytes": limits.memory,
                    # Memory and swap together: no swap.
                    "memory.memsw.limit_in_bytes": limits.memory,
                },
                "pids": {"pids.max": limits.threads},
                "cpu": {
                    "cpu.cfs_period_us": CPU_PERIOD_US,
                    "cpu.cfs_quota_us": quota,
                },
            }
        for controller in sorted(controllers):
            folder = self._folder_of(controller)
            folder.mkdir(parents=True, exist_ok=True)
            for name, value in values[controller].items():
                if "sw" in name and not (folder / name).exists():
                    continue  # a kernel that does not count swap
                (folder / name).write_text(str(value))

    def watch(self, on_excess: Callable[[], None]) -> None:
        """See Wall.watch: the kernel does it."""

    def broken(self) -> bool:
        """See Wall.broken. The kernel counts the processes that it killed for it."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        with suppress(OSError, KeyError):
            for line in (self._folder_of("memory") / name).read_text().splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill" and count != "0":
                    self._broken = True
        return self._broken

    def remove(self) -> None:
        """See Wall.remove. A group whose last process has just ended may need a moment."""
        self.broken()
        for folder in self._folders.values():
            for _ in range(_REMOVE_TRIES):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)
                else:
                    break

    def _folder_of(self, controller: str) -> Path:
        return self._folders["" if self._is_v2 else controller]


class ControlGroups:
    """Control groups as this host has them: v1 or v2, writable or not.

    ``root`` is where they are mounted. Kernel documentation: admin-guide/cgroup-v1/memory,
    admin-guide/cgroup-v2.
    """

    def __init__(self, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._root = root
        self._is_v2 = (root / "cgroup.controllers").is_file()

    @property
    def version(self) -> str:
        """As people call it."""
        return "control group (v2)" if self._is_v2 else "control group (v1)"

    def controllers(self) -> frozenset[str]:
        """Those of memory, pids and cpu that we can set limits with."""
        wanted = ("memory", "pids", "cpu")
        if self._is_v2:
            with suppress(OSError):
                self._open_to_children(wanted)
                enabled = (self._root / _PARENT / "cgroup.subtree_control").read_text()
                return frozenset(wanted) & frozenset(enabled.split())
            return frozenset()
        return frozenset(
            name for name in wanted if os.access(self._root / name, os.W_OK)
        )

    def named(self, name: str) -> ControlGroup:
        """The control group of a sandbox, whether it is there or not."""
        return ControlGroup(f"/{_PARENT}/{name}", self._folders(name), self._is_v2)

    def _folders(self, name: str) -> dict[str, Path]:
        if self._is_v2:
            return {"": self._root / _PARENT / name}
        if not self._root.is_dir():
            return {}
        # runsc makes one for each controller, and leaves its own behind when it is killed.
        return {
            folder.name: folder / _PARENT / name
            for folder in self._root.iterdir()
            if (folder / "cgroup.procs").exists()
        }

    def _open_to_children(self, wanted: tuple[str, ...]) -> None:
        """Hand the controllers down: a group has those that its parents let through."""
        for folder in (self._root, self._root / _PARENT):
            folder.mkdir(exist_ok=True)
            there = set((folder / "cgroup.controllers").read_text().split())
            handed_down = folder / "cgroup.subtree_control"
            for name in there & set(wanted) - set(handed_down.read_text().split()):
                handed_down.write_text(f"+{name}")


class MemoryWatch:
    """A Wall where the host has no control group for us: a thread looks every 30 ms at what
    the sandbox holds, and ends it.

    Its memory is that of one anonymous file, whose blocks are counted whether mapped or not,
    and of gVisor's own process.
    """

    cgroup = ""

    def __init__(self, folder: Path, limits: HostLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._over = threading.Event()
        self._broken = False

    def watch(self, on_excess: Callable[[], None]) -> None:
        """See Wall.watch."""
        threading.Thread(
            target=self._work, args=(on_excess,), name="run-code-watch", daemon=True
        ).start()

    def broken(self) -> bool:
        """See Wall.broken."""
        return self._broken

    def remove(self) -> None:
        """See Wall.remove."""
        self._over.set()

    def _work(self, on_excess: Callable[[], None]) -> None:
        pid = 0
        files: list[str] = []
        while not self._over.wait(_WATCH_SECONDS):
            pid = pid or sandbox_pid(self._folder)
            if not pid:
                continue
            try:
                files = files or _memory_files(pid)
                memory, threads = _usage(pid, files)
            except OSError:  # it is gone
                return
            self._broken = memory > self._limits.memory
            if self._broken or threads > self._limits.threads:
                on_excess()
                return


def _memory_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    paths = (f"{folder}/{name}" for name in os.listdir(folder))
    return [path for path in paths if os.readlink(path).startswith(_SANDBOX_MEMORY)]


def _usage(pid: int, files: list[str]) -> tuple[int, int]:
    """(bytes, threads) of a sandbox. Raises OSError when it is gone."""
    memory = sum(os.stat(path).st_blocks * 512 for path in files)
    threads = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "RssAnon":
            memory += int(value.split()[0]) * 1024
        elif name == "Threads":
            threads = int(value)
    return memory, threads


@contextmanager
def some_processors(cpus: float) -> Iterator[None]:
    """What this thread starts meanwhile runs on so many processors only, whole ones: the
    limit that is left where no control group can be made."""
    allowed = os.sched_getaffinity(0)  # of this thread alone
    count = min(len(allowed), max(1, math.ceil(cpus)))
    os.sched_setaffinity(0, random.sample(sorted(allowed), count))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
