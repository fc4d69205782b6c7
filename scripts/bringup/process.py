"""Background processes that a later command can find again and stop.

A process is remembered by its id *and* its start time, so that an id which the system has
given to another program meanwhile is never signalled.
"""

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "free_port", "is_free", "is_running", "kill", "launch", "stop"]

_SECONDS_TO_DIE = 10.0
# Below those of outgoing connections (net.ipv4.ip_local_port_range, 32768 and up).
_SERVER_PORTS = range(20_000, 32_000)


@dataclass(frozen=True)
class Process:
    """A started process: its id and its start time in clock ticks since boot."""

    pid: int
    started: int


def launch(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path
) -> Process:
    """Start `argv` in a session of its own, output appended to `log`."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    process = Process(child.pid, _start_time(child.pid) or 0)
    # Somebody has to reap the child, or it stays a zombie for as long as we live.
    threading.Thread(target=child.wait, daemon=True).start()
    return process


def is_running(process: Process) -> bool:
    """Tell whether this very process (not another one with its id) is alive."""
    return _start_time(process.pid) == process.started


def stop(process: Process, *, grace: float = 15.0) -> None:
    """End the process and its session: politely, then by force after `grace` seconds."""
    _signal(process, signal.SIGTERM, grace)
    kill(process)


def kill(process: Process) -> None:
    """End the process and its session by force, as a crash would."""
    _signal(process, signal.SIGKILL, _SECONDS_TO_DIE)


def _signal(process: Process, number: signal.Signals, patience: float) -> None:
    if not is_running(process):
        return
    os.killpg(process.pid, number)
    deadline = time.monotonic() + patience
    while is_running(process) and time.monotonic() < deadline:
        time.sleep(0.05)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is free at this moment.

    None of those that the system gives to outgoing connections: one of them could take the
    port before a server does, or while it is started again. Raises OSError if none is free.
    """
    for port in random.sample(_SERVER_PORTS, 100):
        if is_free(port):
            return port
    raise OSError("no TCP port of 127.0.0.1 is free")


def is_free(port: int) -> bool:
    """Tell whether a server could take this TCP port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat; None when there is no such process or only its corpse."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name in brackets may hold spaces
    return None if fields[0] == "Z" else int(fields[19])
