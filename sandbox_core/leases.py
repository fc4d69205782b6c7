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
    """One sandbox as an engine lists it, or the network of one. ``expires_at`` is in seconds
    since the epoch."""

    sandbox_id: str
    run_id: str
    owner: str
    expires_at: float
    is_network: bool = False


def current_owner() -> str:
    """``machine/pid/start``: this process, told apart from a later one with the same pid.

    Never a person's name: labels can be read by everyone who may use the engine.
    """
    return f"{_machine()}/{os.getpid()}/{_process_start(os.getpid())}"


def is_dead(lease: Lease, now: float) -> bool:
    """Whether nobody can be using this sandbox any more.

    Provable in two ways: it expired, or its owner would be seen from here and is gone.
    """
    if now > lease.expires_at + _MARGIN_SECONDS:
        return True
    machine, _, rest = lease.owner.partition("/")
    pid, _, start = rest.partition("/")
    if machine != _machine() or not pid.isdigit():
        return False
    return _process_start(int(pid)) != start


def _machine() -> str:
    """Where a pid means the same process: this boot of this host, and this pid namespace.

    The host's name alone would not do: containers share it when they share its network, and
    must not take each other's processes for dead.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:  # not Linux: nobody is provably dead before the lease ends
        boot, namespace = "", str(os.getpid())
    return f"{socket.gethostname()}.{boot}.{namespace}"


def _process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot (proc(5), field 22); "" if gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]
