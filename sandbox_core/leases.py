"""Who owns a sandbox and until when: the labels that let a reaper find what is left over."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "LABEL_EXPIRES",
    "LABEL_OWNER",
    "LABEL_RUN",
    "Lease",
    "current_owner",
    "is_dead",
]

LABEL_OWNER = "run-code.owner"
LABEL_RUN = "run-code.run"
LABEL_EXPIRES = "run-code.expires"

_MARGIN_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Lease:
    """One sandbox as an engine lists it. ``expires_at`` is in seconds since the epoch."""

    sandbox_id: str
    run_id: str
    owner: str
    expires_at: float


def current_owner() -> str:
    """``host/pid/start``: this process, told apart from a later one with the same pid.

    Never a person's name: labels can be read by everyone who may use the engine.
    """
    return f"{socket.gethostname()}/{os.getpid()}/{_process_start(os.getpid())}"


def is_dead(lease: Lease, now: float) -> bool:
    """Whether nobody can be using this sandbox any more.

    Provable in two ways: it expired, or its owner was on this very host and is gone.
    """
    if now > lease.expires_at + _MARGIN_SECONDS:
        return True
    host, _, rest = lease.owner.partition("/")
    pid, _, start = rest.partition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    return _process_start(int(pid)) != start


def _process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot (proc(5), field 22); "" if gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
