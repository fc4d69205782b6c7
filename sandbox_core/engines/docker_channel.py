"""The byte channel to one sandbox: the hijacked connection of Docker's attach call.

From Docker come records of a stream number, three zero bytes, a 4-byte big-endian length
and data (Docker Engine API, "ContainerAttach"). stdout is the channel; what the sandbox
writes to stderr is kept, bounded, as diagnostics.
"""

import select
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import Ended, KillReport
from sandbox_core.engines.docker_api import DockerApi
from sandbox_core.errors import (
    ChannelClosed,
    EngineError,
    EngineUnavailable,
    StartFailed,
)

__all__ = ["DockerChannel", "StreamRecords", "remove_container"]

_CHUNK = 1 << 18
_KILL_PATIENCE = 1.5
_CLOSE_PATIENCE = 5.0  # nobody waits for it
_REMOVE_SECONDS = 10.0
_SIGKILLED = 137
_POLL_GONE = getattr(select, "POLLRDHUP", 0)  # Linux has it
_LONGEST_DIAGNOSTICS = 4096
_STDOUT = 1
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class StreamRecords:
    """Splits the attach stream into stdout bytes and bounded diagnostics."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._stream = 0
        self._left = 0
        self._untrusted_diagnostics = bytearray()

    @property
    def untrusted_diagnostics(self) -> str:
        """What came on the other streams, at most 4 KiB of it."""
        return self._untrusted_diagnostics.decode("utf-8", "replace")

    def feed(self, data: memoryview) -> bytes:
        """Take bytes as they came; return the stdout bytes among them."""
        stdout = []
        while data:
            if self._left == 0:
                data = self._read_header(data)
                continue
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            if self._stream == _STDOUT:
                stdout.append(part)
            else:
                room = _LONGEST_DIAGNOSTICS - len(self._untrusted_diagnostics)
                self._untrusted_diagnostics += part[:room]
        return b"".join(stdout)

    def _read_header(self, view: memoryview) -> memoryview:
        missing = 8 - len(self._header)
        self._header += view[:missing]
        if len(self._header) == 8:
            self._stream = self._header[0]
            self._left = int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return view[missing:]


class DockerChannel:
    """A Channel over one attached container. See Channel for who calls what."""

    def __init__(self, api: DockerApi, container_id: str, attached: Any) -> None:
        self._api = api
        self._container_id = container_id
        self._attached = attached
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._socket.setblocking(False)
        self._records = StreamRecords()
        self._buffer = memoryview(bytearray(_CHUNK))
        self._made_at = time.time()
        self._started = False
        self._ended_by_itself = False
        self._killed = threading.Event()
        self._lock = threading.Lock()
        self._report: KillReport | None = None

    def start(self, deadline: Deadline) -> None:
        """Start the container. Called once, by the engine. Raises EngineError."""
        self._api.call(deadline, "start", self._container_id)
        self._started = True

    def send(self, data: bytes, deadline: Deadline) -> None:
        """See Channel.send."""
        view = memoryview(data)
        while view:
            if self._killed.is_set():
                raise ChannelClosed("The sandbox was stopped.")
            if deadline.passed():
                raise StartFailed(
                    "The sandbox did not take its files in time. Try again."
                )
            state = self._wait_for(
                select.POLLOUT | _POLL_GONE, min(0.2, deadline.remaining())
            )
            if not state:
                continue
            if state & _POLL_GONE and not self._killed.is_set():
                # Docker goes on taking what nobody will read, until its buffers are full.
                self._ended_by_itself = True
                raise ChannelClosed("The sandbox ended unexpectedly.")
            try:
                view = view[self._socket.send(view) :]
            except _NOT_YET:
                continue
            except OSError as error:
                raise ChannelClosed(
                    "The sandbox ended unexpectedly.", repr(error)
                ) from error

    def recv(self, timeout: float) -> bytes | None:
        """See Channel.recv."""
        end = Deadline(timeout)
        while not self._killed.is_set():
            if not self._wait_for(select.POLLIN, end.remaining()):
                return None
            try:
                size = self._socket.recv_into(self._buffer)
            except _NOT_YET:
                continue
            except OSError:
                return b""
            if not size:
                self._ended_by_itself = not self._killed.is_set()
                return b""
            stdout = self._records.feed(self._buffer[:size])
            if stdout:
                return stdout
            if end.passed():
                return None
        return b""

    def _wait_for(self, events: int, seconds: float) -> int:
        """The poll events that are there now; 0 when none came in time."""
        poll = select.poll()
        try:
            # Of what TLS has read ahead the socket itself knows nothing.
            if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                return events
            poll.register(self._socket, events)
        except ValueError:  # closed by a kill in another thread
            return events
        return next((state for _, state in poll.poll(seconds * 1000)), 0)

    def close_send(self) -> None:
        """See Channel.close_send."""
        with suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_WR)

    def kill(self) -> KillReport:
        """See Channel.kill."""
        return self._end(_KILL_PATIENCE)

    def _end(self, patience: float) -> KillReport:
        """The socket goes first: while an attached client does not read, Docker's own kill,
        inspect and remove hang."""
        self._killed.set()
        with self._lock:
            if self._report is None or self._report.may_linger:
                with suppress(OSError):  # it may be closed already
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._report = remove_container(
                    self._api, self._container_id, patience if self._started else 0.0
                )
            return self._report

    def ended(self, deadline: Deadline) -> Ended:
        """See Channel.ended. The container may be gone already, so the daemon's recent events
        are asked: they hold the exit code, and whether its memory limit was hit."""
        try:
            events = self._api.events(
                deadline, self._container_id, ["oom", "die"], int(self._made_at) - 1
            )
        except EngineError:
            diagnostics = self._records.untrusted_diagnostics
            return Ended(None, None, diagnostics, may_linger=True)
        codes = [
            int(event["Actor"]["Attributes"]["exitCode"])
            for event in events
            if event["Action"] == "die"
        ]
        exit_code = codes[0] if codes else None
        oom = any(event["Action"] == "oom" for event in events) or (
            self._ended_by_itself and self._looks_like_oom(exit_code)
        )
        lingers = self._report is not None and self._report.may_linger
        return Ended(exit_code, oom, self._records.untrusted_diagnostics, lingers)

    def _looks_like_oom(self, exit_code: int | None) -> bool:
        """Docker misses the event when the whole sandbox dies at once. Then, what ended it
        with SIGKILL before we did was the kernel."""
        return exit_code == _SIGKILLED

    def close(self) -> None:
        """See Channel.close."""
        self._end(_CLOSE_PATIENCE)
        self._socket.close()
        response = getattr(self._attached, "_response", None)
        if response is not None:
            response.close()


def remove_container(
    api: DockerApi, container_id: str, patience: float = 0.0
) -> KillReport:
    """Make sure that a container is gone.

    For ``patience`` seconds it may end and go by itself: its guest does so when its stdin
    ends. To kill a sandbox that is just ending, with many processes in it, can make Docker
    wait a second for each of them (containerd reaps them behind its own kill command).
    """
    if patience and _is_removed(api, container_id, Deadline(patience)):
        return KillReport()
    deadline = Deadline(_REMOVE_SECONDS)
    while True:
        try:
            api.call(deadline, "remove_container", container_id, force=True, v=True)
            return KillReport()
        except EngineError as error:
            if _says_gone(error):
                return KillReport()
            if isinstance(error, EngineUnavailable) or deadline.passed():
                return KillReport(may_linger=True, detail=error.detail)
        time.sleep(0.05)  # the daemon is removing it on its own


def _is_removed(api: DockerApi, container_id: str, deadline: Deadline) -> bool:
    try:
        api.call(deadline, "wait", container_id, condition="removed")
    except EngineError as error:
        return _says_gone(error)
    return True


def _says_gone(error: EngineError) -> bool:
    return "no such container" in error.detail.lower()
