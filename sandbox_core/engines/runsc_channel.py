"""The byte channel to one embedded sandbox: the pipes of a ``runsc run``.

stdin and stdout are the channel; what comes on stderr is kept, bounded, as diagnostics.
runsc's own child processes die with it (it asks the kernel for that), and it is killed by us;
if we are killed, the guest's stdin ends, and so does the guest.
"""

import fcntl
import os
import select
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import Ended, KillReport
from sandbox_core.engines.runsc_errors import RUNSC_FAILED, error_from_runsc
from sandbox_core.engines.runsc_state import end_processes, remove_folder
from sandbox_core.engines.runsc_walls import Wall
from sandbox_core.errors import ChannelClosed, StartFailed

__all__ = ["RunscChannel"]

_PIPE_CHUNK = 1 << 18
_PIPE_SLICE_SECONDS = 0.5
_PIPE_PATIENCE = 1.5
_PIPE_DIAGNOSTICS = 4096


class RunscChannel:
    """A Channel over a started process. See Channel for who calls what."""

    def __init__(
        self, process: subprocess.Popen[bytes], folder: Path, wall: Wall
    ) -> None:
        self._process = process
        self._folder = folder
        self._wall = wall
        self._pipes = [
            pipe
            for pipe in (process.stdin, process.stdout, process.stderr)
            if pipe is not None
        ]
        self._stdin, self._stdout, self._stderr = (
            pipe.fileno() for pipe in self._pipes
        )
        for number in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(number, False)
            with suppress(OSError):  # the user's share of pipe memory may be used up
                fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _PIPE_CHUNK)
        self._untrusted_diagnostics = bytearray()
        self._heard = False
        self._over = False
        self._killed = threading.Event()
        self._lock = threading.Lock()
        self._report: KillReport | None = None
        self._closed = False
        wall.watch(self._on_excess)

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
            poll = select.poll()
            poll.register(self._stdin, select.POLLOUT)
            slice_seconds = min(_PIPE_SLICE_SECONDS, deadline.remaining())
            if not poll.poll(slice_seconds * 1000):
                continue
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                self._raise_if_never_started()
                raise ChannelClosed(
                    "The sandbox ended unexpectedly.", repr(error)
                ) from error

    def recv(self, timeout: float) -> bytes | None:
        """See Channel.recv. Raises EngineError when no sandbox came up at all."""
        end = Deadline(timeout)
        while not self._killed.is_set():
            ready = self._wait_for_output(min(_PIPE_SLICE_SECONDS, end.remaining()))
            if self._stderr in ready:
                self._read_diagnostics()
            if self._stdout in ready:
                try:
                    data = os.read(self._stdout, _PIPE_CHUNK)
                except BlockingIOError:
                    continue
                self._heard = self._heard or bool(data)
                if not data:
                    self._over = not self._killed.is_set()
                    self._raise_if_never_started()
                return data
            if end.passed():
                return None
        return b""

    def _wait_for_output(self, seconds: float) -> set[int]:
        poll = select.poll()
        for pipe in (self._stdout, self._stderr):
            poll.register(pipe, select.POLLIN)
        return {pipe for pipe, _ in poll.poll(seconds * 1000)}

    def _read_diagnostics(self) -> bool:
        """Take what there is of stderr; keep the first of it. False at its end."""
        if self._closed:
            return False
        try:
            data = os.read(self._stderr, _PIPE_CHUNK)
        except BlockingIOError:
            return False
        room = _PIPE_DIAGNOSTICS - len(self._untrusted_diagnostics)
        self._untrusted_diagnostics += data[:room]
        return bool(data)

    def _raise_if_never_started(self) -> None:
        """runsc's own failure is told by its exit code, and before the guest said a word."""
        if self._heard or self._killed.is_set():
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PIPE_PATIENCE)
        if self._process.returncode == RUNSC_FAILED:
            raise error_from_runsc(self._diagnostics())

    def _diagnostics(self) -> str:
        while self._read_diagnostics():
            pass
        return self._untrusted_diagnostics.decode("utf-8", "replace")

    def close_send(self) -> None:
        """See Channel.close_send."""
        with suppress(OSError):  # it may be closed already
            self._pipes[0].close()

    def kill(self) -> KillReport:
        """See Channel.kill."""
        self._killed.set()
        with self._lock:
            if self._report is None or self._report.may_linger:
                self._report = self._end()
            return self._report

    def _on_excess(self) -> None:
        """The watch found too much. Whoever reads sees the end of the stream."""
        self._over = True
        self._process.kill()

    def _end(self) -> KillReport:
        if self._over:  # the guest ended: let runsc tell its exit code
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PIPE_PATIENCE)
        self._process.kill()
        gone = end_processes(self._folder)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PIPE_PATIENCE)
        if not gone or self._process.returncode is None:
            return KillReport(may_linger=True, detail=f"processes of {self._folder}")
        self._wall.remove()
        remove_folder(self._folder)
        return KillReport()

    def ended(self, deadline: Deadline) -> Ended:
        """See Channel.ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(deadline.remaining())
        code = self._process.returncode
        if code is None:
            return Ended(None, None, self._diagnostics(), may_linger=True)
        lingers = self._report is not None and self._report.may_linger
        exit_code = 128 - code if code < 0 else code
        return Ended(exit_code, self._wall.broken(), self._diagnostics(), lingers)

    def close(self) -> None:
        """See Channel.close."""
        self.kill()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for pipe in self._pipes:
                with suppress(OSError):
                    pipe.close()
