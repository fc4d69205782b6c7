"""The host's side of the frames between host and guest.

A frame is one ASCII letter, a 4-byte big-endian length and the payload (guest_wire.py has
the other side). Whatever comes from the sandbox is untrusted: kind, length, order and
content are checked here, and a breach raises ProtocolError.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox_core.errors import ProtocolError

__all__ = [
    "DATA_CHUNK",
    "FrameReader",
    "bootstrap_argv",
    "encode_frame",
    "encode_header",
    "encode_program",
    "joined_frames",
    "parse_header",
]

DATA_CHUNK = 1 << 20
_JOINED_BYTES = 1 << 16
_LARGEST_DATA = 1 << 18
_LARGEST_HEADER = 1 << 16
_DATA_KINDS = b"oed"
_HEADER_KINDS = b"hncsxvpfqk!z"
_LARGEST_VALUE = 1 << 19
_MISSING = object()
_FRAME_HEAD = 5  # kind and length

_BOOTSTRAP = """\
import os
def read(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(70)
        data += part
    return data
exec(compile(read(int(read(8))), "guest", "exec"))
"""


def bootstrap_argv(python: str = "python3") -> list[str]:
    """The container's command: read a program of a stated length from stdin and become it."""
    return [python, "-I", "-S", "-c", _BOOTSTRAP]


def encode_program(text: str) -> bytes:
    """The first bytes that the bootstrap reads: eight digits of length, then the program."""
    data = text.encode()
    return b"%08d" % len(data) + data


def encode_frame(kind: str, payload: bytes | memoryview = b"") -> bytes:
    """One frame for the guest; ``payload`` may be empty."""
    return kind.encode() + len(payload).to_bytes(4, "big") + payload


def joined_frames(frames: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: each one that travels wakes up several processes."""
    pending = b""
    for frame in frames:
        if pending and len(pending) + len(frame) > _JOINED_BYTES:
            yield pending
            pending = b""
        pending += frame
    if pending:
        yield pending


def encode_header(kind: str, values: Mapping[str, Any]) -> bytes:
    """A frame whose payload is a Python literal: the guest trusts us, and need not import."""
    return encode_frame(kind, repr(dict(values)).encode())


def parse_header(
    untrusted_payload: bytes, types: Mapping[str, type | tuple[type, ...]]
) -> Any:
    """The named fields of a header from the sandbox, each of its stated type.

    Raises ProtocolError when it is no flat JSON object, or a field is missing or of another
    type. Numbers must be finite; unknown fields are dropped.
    """
    try:
        untrusted = json.loads(untrusted_payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            "The sandbox sent a broken message.", repr(error)
        ) from error
    if not isinstance(untrusted, dict):
        raise ProtocolError("The sandbox sent a broken message.", "header is no object")
    for name, kinds in types.items():
        value = untrusted.get(name, _MISSING)
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        is_stray_bool = isinstance(value, bool) and bool not in wanted
        if not isinstance(value, wanted) or is_stray_bool:
            raise ProtocolError("The sandbox sent a broken message.", f"field {name}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ProtocolError("The sandbox sent a broken message.", f"field {name}")
    return {name: untrusted[name] for name in types}


class FrameReader:
    """Cuts frames out of the byte stream of one sandbox; never holds more than one header."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._kind = ""
        self._left = 0  # bytes of a data frame that are still to come

    def feed(self, untrusted_data: bytes) -> Iterator[tuple[str, bytes]]:
        """Take bytes as they came; yield (kind, payload) for each header that is now complete,
        and for each piece of a data frame (kinds o, e, d), which need not be whole: it costs
        no copy. Whoever does not take them all loses the rest.

        Raises ProtocolError at an unknown kind or an oversized length, as soon as its five
        header bytes are there.
        """
        start = 0
        while start < len(untrusted_data):
            if self._left:
                piece = untrusted_data[start : start + self._left]
                start += len(piece)
                self._left -= len(piece)
                yield self._kind, piece
                continue
            end = start + self._missing()
            self._received += untrusted_data[start:end]
            start = end
            yield from self._complete_header()

    def _missing(self) -> int:
        """How many bytes of a header the reader waits for."""
        received = self._received
        if len(received) < _FRAME_HEAD:
            return _FRAME_HEAD - len(received)
        return (
            _FRAME_HEAD + int.from_bytes(received[1:_FRAME_HEAD], "big") - len(received)
        )

    def _complete_header(self) -> Iterator[tuple[str, bytes]]:
        received = self._received
        if len(received) < _FRAME_HEAD:
            return
        kind, length = bytes(received[:1]), int.from_bytes(
            received[1:_FRAME_HEAD], "big"
        )
        _check_frame(kind, length)
        if kind in _DATA_KINDS:
            self._kind, self._left = kind.decode("ascii"), length
            received.clear()
        elif not self._missing():
            payload = bytes(received[_FRAME_HEAD:])
            received.clear()  # before the yield: the caller may leave the loop there
            yield kind.decode("ascii"), payload


def _check_frame(untrusted_kind: bytes, untrusted_length: int) -> None:
    if untrusted_kind in _DATA_KINDS:
        largest = _LARGEST_DATA
    elif untrusted_kind in _HEADER_KINDS:
        largest = _LARGEST_VALUE if untrusted_kind == b"v" else _LARGEST_HEADER
    else:
        raise ProtocolError(
            "The sandbox sent a broken message.", f"kind {untrusted_kind!r}"
        )
    if untrusted_length > largest:
        raise ProtocolError(
            "The sandbox sent a broken message.", f"length {untrusted_length}"
        )
