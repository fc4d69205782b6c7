"""What an engine is: it gives us a byte channel to the guest of a fresh sandbox.

Life cycle, deadlines, the protocol and the outcome belong to the runner. An engine starts,
moves bytes, kills, and lists what is left over. Its own vendor's errors are mapped to
``sandbox_core.errors`` in one place.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sandbox_core.data_folders import DataFolder
from sandbox_core.deadline import Deadline
from sandbox_core.egress import EgressSettings, Route
from sandbox_core.leases import Lease
from sandbox_core.limits import Limits

__all__ = [
    "CancelToken",
    "Channel",
    "Ended",
    "Engine",
    "Finding",
    "KillReport",
    "SandboxSpec",
]


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything an engine needs to know of a sandbox. It holds no secret: labels and the
    command line can be read from outside, and the command line from inside.

    ``network`` is the engine's name of an internal network, or empty: no network at all.
    ``proxy`` is the address of the proxy on it that programs are told of.
    ``packages_mib`` is the size of a folder for installed packages; 0: there is none.
    ``waiting`` names the interpreter that is started before the job: ``python``, which imports
    the modules of ``preload``, or ``node``; empty means a cold sandbox. ``data_folders``, by
    their real paths, are shown read-only.
    """

    image: str
    runtime: str
    limits: Limits
    run_id: str
    owner: str
    expires_at: float
    argv: tuple[str, ...]
    waiting: str = ""
    preload: tuple[str, ...] = ()
    data_folders: tuple[DataFolder, ...] = ()
    network: str = ""
    packages_mib: int = 0
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor looked at. ``mend`` is the command or line that mends it, and
    ``why`` says what it would cost to leave it."""

    name: str
    ok: bool
    text: str
    mend: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class KillReport:
    """What is known after a kill. ``may_linger``: the engine did not confirm the end."""

    may_linger: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a sandbox ended, as the engine saw it. ``oom`` is None when it cannot tell.

    ``untrusted_diagnostics`` is what the sandbox wrote outside the protocol, bounded.
    """

    exit_code: int | None = None
    oom: bool | None = None
    untrusted_diagnostics: str = ""
    may_linger: bool = False


class CancelToken:
    """Set once, from any thread; wakes whoever registered."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Ask the run to end; what it printed so far is kept. Idempotent."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def is_set(self) -> bool:
        """Whether cancel() was called."""
        return self._event.is_set()

    def call_on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back once at cancel(), in its thread; at once if it was called before."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()


class Channel(Protocol):
    """A duplex byte stream to one guest, and the power to end its sandbox."""

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Called by the runner's thread. Returns when all is written. Raises ChannelClosed
        when the guest is gone, and StartFailed when the deadline passes first."""

    def recv(self, timeout: float) -> bytes | None:
        """Called by the runner's thread only. At most 256 KiB; None = nothing came within
        ``timeout`` seconds, b"" = the end, also after a kill from another thread."""

    def close_send(self) -> None:
        """Half-close: the guest sees the end of its stdin and ends."""

    def kill(self) -> KillReport:
        """Called from any thread in any state, any number of times. Afterwards send and recv
        return at once, and the sandbox is gone unless the report says that it may linger.
        """

    def ended(self, deadline: Deadline) -> Ended:
        """Called by the runner after the end of the stream or a kill."""

    def close(self) -> None:
        """Always called by the runner, last: leaves no sandbox and no descriptor behind."""


class Engine(Protocol):
    """A source of fresh sandboxes."""

    name: str

    @property
    def is_here(self) -> bool:
        """Asked by whoever names folders of its host: whether that is this machine."""

    def check(self, deadline: Deadline) -> list[Finding]:
        """Called by the doctor: what is there, what is missing, and what mends it."""

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> Channel:
        """Called by the runner: a new sandbox, attached before it was started. On any raise
        nothing is left. Raises EngineError; ChannelClosed when cancelled meanwhile."""

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """Called by the runner before start(), for a run with a network: one of its own, with
        the proxy on it. On any raise nothing is left. Raises EngineError."""

    def close_route(self, route: Route) -> None:
        """Called by the runner when the sandbox was closed or is about to be: waits for that,
        and leaves nothing of the network. Raises EngineError."""

    def leftovers(self) -> list[Lease]:
        """Called by the reaper: every sandbox of ours, whoever owns it, and then the networks
        of sandboxes. Raises EngineError."""

    def remove(self, lease: Lease) -> None:
        """Called by the reaper for what is provably dead. Gone already is fine."""

    def image_id(self, deadline: Deadline) -> str:
        """Called for records: the digest of the image that check() looks for; empty when it
        is not there. Raises EngineError."""
