"""The host's side of the frames between host and guest.

A frame is one ASCII letter, a 4-byte big-endian length and the payload (guest_wire.py has
the other side). Whatever comes from the sandbox is untrusted: kind, length, order and
content are checked here, and a breach raises ProtocolError.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox_core.errors import ProtocolError

__all__ = [
    "DATA_CHUNK",
    "FrameReader",
    "bootstrap_argv",
    "encode_frame",
    "encode_header",
    "encode_program",
    "parse_header",
]

DATA_CHUNK = 1 << 18
_LARGEST_DATA = 1 << 18
_LARGEST_HEADER = 1 << 16
_DATA_KINDS = b"oed"
_HEADER_KINDS = b"hsxvpfqk!z"
_LARGEST_VALUE = 1 << 19
_MISSING = object()

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
    """Cuts frames out of the byte stream of one sandbox; never holds more than one frame."""

    def __init__(self) -> None:
        self._received = bytearray()

    def feed(self, untrusted_data: bytes) -> Iterator[tuple[str, bytes]]:
        """Take bytes as they came; yield each (kind, payload) that is now complete.

        Raises ProtocolError at an unknown kind or an oversized length, as soon as its five
        header bytes are there.
        """
        received = self._received
        received += untrusted_data
        while len(received) >= 5:
            kind, length = bytes(received[:1]), int.from_bytes(received[1:5], "big")
            _check_frame(kind, length)
            end = 5 + length
            if len(received) < end:
                break
            payload = bytes(received[5:end])
            del received[:end]  # before the yield: the caller may leave the loop there
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
