"""Frames between guest and host, seen from inside the sandbox.

A frame is one ASCII letter, a 4-byte big-endian length and the payload. Headers from the
host are Python literals, because the host is trusted and a literal needs no import; headers
to the host are JSON, because the host must not trust this side. ``_json`` and ``_collections``
are the C halves of packages: importing these would cost each run some ten milliseconds each.
"""

import _json
import os
from _collections import deque  # type: ignore[import-not-found]

CHUNK = 1 << 18


def json_text(value):
    """JSON bytes of nested dicts with plain keys, lists, str, numbers, bool and None."""
    return _json_of(value).encode()


def _json_of(value):
    if isinstance(value, str):
        return _json.encode_basestring_ascii(value)
    if isinstance(value, dict):
        pairs = (
            _json_of(name) + ":" + _json_of(entry) for name, entry in value.items()
        )
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_json_of(entry) for entry in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def literal(payload):
    """The value of a header from the host."""
    return eval(payload.decode(), {"__builtins__": {}})


def frame_of(kind, payload):
    return kind + len(payload).to_bytes(4, "big") + payload


def take_frame(buffer):
    """Cut one whole frame (kind, payload) off the front of a bytearray; None if incomplete."""
    if len(buffer) < 5:
        return None
    end = 5 + int.from_bytes(buffer[1:5], "big")
    if len(buffer) < end:
        return None
    kind, payload = bytes(buffer[:1]), bytes(buffer[5:end])
    del buffer[:end]
    return kind, payload


class Sender:
    """Bytes on their way into a pipe that may be full. Never blocks."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.parts = deque()
        self.unsent = 0
        os.set_blocking(descriptor, False)

    def put(self, data):
        if data:
            self.parts.append(memoryview(data))
            self.unsent += len(data)

    def flush(self):
        """Write what the pipe takes now. A reader that is gone loses the rest."""
        while self.parts:
            try:
                written = os.write(self.descriptor, self.parts[0][:CHUNK])
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.parts.clear()
                self.unsent = 0
                return
            self.unsent -= written
            rest = self.parts.popleft()[written:]
            if rest:
                self.parts.appendleft(rest)


class Wire:
    """Frames from descriptor 0 and to descriptor 1. Never blocks."""

    def __init__(self):
        self.received = bytearray()
        self.buffer = memoryview(bytearray(CHUNK))  # to allocate is slow in gVisor
        self.sender = Sender(1)
        os.set_blocking(0, False)

    def receive(self):
        """Read what is there; the end of the stream means that our owner is gone."""
        try:
            size = os.readv(0, [self.buffer])
        except BlockingIOError:
            return
        if not size:
            os._exit(0)
        self.received += self.buffer[:size]

    def send(self, kind, payload=b""):
        self.sender.put(frame_of(kind, payload))
