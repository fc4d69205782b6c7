"""Runs as JSON: what goes between a plugin and the codebox service. Pure, both directions.

The answer to a run is one JSON object a line. ``event`` says what it is: ``alive`` (nothing
happened), ``started`` and ``text`` as in RunEvent, ``file``, ``display`` and ``full_output``
(one begins) and ``data`` (its next bytes, base64), and at last ``result``. A stream that ends
without a ``result`` means that the run was lost.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import IO, Any

from sandbox_core.archive import safe_output_name
from sandbox_core.errors import ProtocolError
from sandbox_core.models import RunEvent, RunRequest, RunResult
from sandbox_core.spool import spooled_file

__all__ = [
    "ALIVE_LINE",
    "NDJSON",
    "RunReader",
    "encode_event",
    "encode_request",
    "encode_result",
]

NDJSON = "application/x-ndjson"
ALIVE_LINE = b'{"event":"alive"}\n'
_CHUNK_BYTES = 3 << 16  # a multiple of 3 needs no padding
# What has a content: events, and with an s the fields of a result.
_CONTENT_KINDS = ("file", "display", "full_output")
_BROKEN = "The code service sent something that cannot be understood."


def encode_request(request: RunRequest) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The JSON object to post, and the contents to send beside it, by the names of their
    parts; without parts the JSON is all."""
    parts = {f"file{number}": file.whole() for number, file in enumerate(request.files)}
    plain: dict[str, Any] = {
        "run_id": request.run_id,
        "steps": [
            {"language": step.language, "code": _valid_text(step.code)}
            for step in request.steps
        ],
        "limits": asdict(request.limits),
        "files": [
            {"name": file.name, "part": part}
            for file, part in zip(request.files, parts, strict=True)
        ],
    }
    if request.network:
        plain["network"] = request.network
    if request.packages:
        plain["packages"] = list(request.packages)
    if request.stdin:
        plain["stdin_part"] = "stdin"
        parts["stdin"] = request.stdin
    return plain, parts


def _valid_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def encode_event(event: RunEvent) -> bytes:
    """The line for an event."""
    return _line(
        {
            "event": event.kind,
            "step": event.step,
            "stream": event.stream,
            "text": event.text,
        }
    )


def encode_result(result: RunResult) -> Iterator[bytes]:
    """The lines for a result, its files and displays first; their contents are read and
    closed."""
    plain = result.to_plain()
    full_output = plain.pop("full_output")
    # Without gaps the text is all in the result itself.
    is_needed = full_output is not None and result.output.omitted
    plain["full_outputs"] = [full_output] if is_needed else []
    for kind in _CONTENT_KINDS:
        for entry in plain.pop(kind + "s"):
            content = entry.pop("content")
            yield _line({"event": kind, **entry})
            yield from _data_lines(content)
    yield _line({"event": "result", **plain})


def _data_lines(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while chunk := content.read(_CHUNK_BYTES):
            text = base64.b64encode(chunk).decode("ascii")
            yield _line({"event": "data", "base64": text})


def _line(plain: dict[str, Any]) -> bytes:
    return json.dumps(plain, separators=(",", ":")).encode("ascii") + b"\n"


class RunReader:
    """Takes the lines of an answer; ``result`` is None until the last one came.

    The service is trusted to be bounded, not to be well: whatever is broken is a
    ProtocolError and leaves no open file behind after close().
    """

    def __init__(self) -> None:
        self.result: RunResult | None = None
        self._received: dict[str, list[dict[str, Any]]] = {
            kind: [] for kind in _CONTENT_KINDS
        }
        self._content: IO[bytes] | None = None

    def take(self, line: bytes) -> RunEvent | None:
        """One line; gives the event if it is one. Raises ProtocolError."""
        try:
            plain = json.loads(line)
            return self._take(plain.pop("event"), plain)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProtocolError(_BROKEN, repr(error)) from error

    def close(self) -> None:
        """Drop what was received without a result."""
        if self.result is None:
            for entries in self._received.values():
                for entry in entries:
                    entry["content"].close()

    def _take(self, kind: str, plain: dict[str, Any]) -> RunEvent | None:
        if kind in ("started", "text"):
            step, stream = int(plain["step"]), str(plain["stream"])
            return RunEvent(kind, step, stream, str(plain["text"]))
        if kind in _CONTENT_KINDS:
            self._begin(kind, plain)
        elif kind == "data":
            self._append(plain["base64"])
        elif kind == "result":
            self.result = self._decode_result(plain)
        return None

    def _begin(self, kind: str, plain: dict[str, Any]) -> None:
        self._content = spooled_file()
        entry = {"name": safe_output_name(str(plain["name"])), "content": self._content}
        if kind == "display":
            entry["mime_type"] = str(plain["mime_type"])
        self._received[kind].append(entry)

    def _append(self, text: str) -> None:
        if self._content is None:
            raise ProtocolError(_BROKEN, "data without a file")
        try:
            self._content.write(base64.b64decode(text, validate=True))
        except binascii.Error as error:
            raise ProtocolError(_BROKEN, repr(error)) from error

    def _decode_result(self, plain: dict[str, Any]) -> RunResult:
        # A newer service may tell more than this side knows of.
        known = {entry.name for entry in fields(RunResult)}
        values = {name: value for name, value in plain.items() if name in known}
        values["notes"] = tuple(str(note) for note in values["notes"])
        for kind, entries in self._received.items():
            for entry in entries:
                entry["size"] = entry["content"].tell()
                entry["content"].seek(0)
            values[kind + "s"] = entries
        full_outputs = values.pop("full_outputs")
        values["full_output"] = full_outputs[-1] if full_outputs else None
        return RunResult.from_plain(values)
