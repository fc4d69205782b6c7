"""An engine without sandboxes, for the runner's own decisions: its guest is a script.

A script is a list of what the guest does, in order: bytes that it sends, a float (seconds
of silence), or a callable that is called and may return more bytes. At the script's end the
stream ends, unless the last entry is SILENCE.
"""

import json
import os
import time

from sandbox_core.engines.base import Ended, KillReport
from sandbox_core.errors import ChannelClosed
from sandbox_core.protocol import encode_frame

SILENCE = float("inf")
FLAGS = (
    "cancelled",
    "timed_out",
    "memory_killed",
    "output_capped",
    "processes_killed",
    "processes_full",
    "disk_full",
)


class FakeEngine:
    """Gives out one FakeChannel per start, each playing the same script."""

    name = "fake"

    def __init__(self, *script, ended=None, start_error=None):
        if "PYTEST_CURRENT_TEST" not in os.environ:
            raise RuntimeError(
                "The fake engine isolates nothing: it is for tests only."
            )
        self.script = script
        self.ended = ended or Ended(exit_code=0, oom=False)
        self.start_error = start_error
        self.channels = []

    def check(self, deadline):
        return []

    def start(self, spec, cancel, deadline):
        if self.start_error is not None:
            raise self.start_error
        channel = FakeChannel(list(self.script), self.ended)
        self.channels.append(channel)
        return channel

    def leftovers(self):
        return []

    def remove(self, lease):
        raise AssertionError("the fake engine leaves nothing over")

    @property
    def channel(self):
        """The only channel that was given out."""
        (channel,) = self.channels
        return channel


class FakeChannel:
    """Plays a script; remembers what was sent to it and done with it."""

    def __init__(self, script, ended):
        self._script = script
        self._ended = ended
        self.sent = bytearray()
        self.killed = False
        self.closed = False

    def send(self, data, deadline):
        if self.killed:
            raise ChannelClosed("The sandbox was stopped.")
        self.sent += data

    def recv(self, timeout):
        if self.killed or not self._script:
            return b""
        entry = self._script[0]
        if callable(entry):
            self._script.pop(0)
            return entry() or None
        if isinstance(entry, bytes):
            self._script.pop(0)
            return entry
        pause = min(timeout, entry)
        time.sleep(pause)
        self._script[0] = entry - pause
        if self._script[0] <= 0:
            self._script.pop(0)
        return None

    def close_send(self):
        self.killed = True

    def kill(self):
        self.killed = True
        return KillReport()

    def ended(self, deadline):
        return self._ended

    def close(self):
        self.kill()
        self.closed = True


def header(kind, **values):
    """One header frame of the guest."""
    return encode_frame(kind, json.dumps(values).encode())


def hello(gvisor=True, kernel="Linux version 4.4.0"):
    """The guest's first frame."""
    return header("h", gvisor=gvisor, kernel=kernel)


def started(step=0):
    """A step's program runs."""
    return header("s", step=step)


def step_end(step=0, exit_code=0, signal=None):
    """A step's program ended."""
    return header("x", step=step, exit_code=exit_code, signal=signal, seconds=0.1)


def done(seconds=0.1, **flags):
    """The guest's last frame."""
    return header("z", **(dict.fromkeys(FLAGS, False) | {"seconds": seconds} | flags))


def killed_step(step=0, signal=9):
    """A step's program ended by a signal."""
    return step_end(step, exit_code=None, signal=signal)
