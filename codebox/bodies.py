"""Requests for a run, read within caps: JSON, or multipart with files beside the JSON."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from codebox.identity import Identity
from codebox.refusals import BadRequest
from codebox.settings import Settings
from sandbox_core.call_input import has_code, no_code
from sandbox_core.egress import NETWORK_MODES
from sandbox_core.errors import InvalidRequest
from sandbox_core.languages import language_named
from sandbox_core.limits import MIB, Limits, limit_records
from sandbox_core.models import InputFile, RunRequest, Step, new_run_id

__all__ = ["FileIn", "ReadBody", "RunBody", "StepIn", "read_body"]

_MOST_FILES = 1000
_MOST_STEPS = 100
_MOST_PACKAGES = 20
_SHOWN_FAULTS = 5
_NO_PACKAGES = (
    "Packages are off here, so nothing was run: none can be installed. Use those that are "
    "there (GET /v1/packages lists them), and leave the field packages out."
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StepIn(_Strict):
    """One program of a run."""

    language: str = Field("python", max_length=64, description="Name of the language.")
    code: str = Field(description="The whole program.")


class FileIn(_Strict):
    """A file for the work folder, with its content here or in a part of the form."""

    name: str = Field(max_length=4096, description="Relative name in the work folder.")
    data: str | None = Field(None, description="The content, base64.")
    part: str | None = Field(
        None, max_length=100, description="The multipart field that holds the content."
    )


class RunBody(_Strict):
    """What to run: ``code`` in one ``language``, or several ``steps`` in one sandbox."""

    code: str | None = Field(None, description="The whole program, plain text.")
    language: str = Field("python", max_length=64, description="Its language.")
    steps: list[StepIn] | None = Field(
        None,
        max_length=_MOST_STEPS,
        description="Instead of code: programs to run one after another. Files stay.",
    )
    stdin: str | None = Field(None, description="What the program reads from stdin.")
    stdin_base64: str | None = Field(None, description="The same, for any bytes.")
    stdin_part: str | None = Field(
        None, max_length=100, description="The same, as a part of a multipart request."
    )
    files: list[FileIn] = Field(
        default_factory=list,
        max_length=_MOST_FILES,
        description="Files to put into the work folder first.",
    )
    packages: list[str] | None = Field(
        None,
        max_length=_MOST_PACKAGES,
        description="Python packages to install first, where the service allows it.",
    )
    network: Literal[NETWORK_MODES] | None = Field(  # type: ignore[valid-type]
        None,
        description="What the run may reach at most, where the service allows more: "
        + ", ".join(NETWORK_MODES)
        + ".",
    )
    limits: dict[str, int | float] = Field(
        default_factory=dict,
        description="Lower limits than the service's, by name: "
        + ", ".join(record.name for record in limit_records())
        + ".",
    )
    output_kb: int = Field(
        16, ge=1, le=1024, description="KiB of stdout, and of stderr, in a JSON answer."
    )
    return_files: bool = Field(
        False, description="Whether a JSON answer holds the contents of the files made."
    )
    run_id: str | None = Field(
        None, pattern=r"^[0-9a-f]{16}$", description="An id of the caller's own choice."
    )


@dataclass(frozen=True, slots=True)
class ReadBody:
    """A request for the core, and how its answer is wanted."""

    request: RunRequest
    output_kb: int
    return_files: bool


async def read_body(request: Request, caller: Identity, settings: Settings) -> ReadBody:
    """The run that an HTTP request asks for. Raises BadRequest (413, 415, 422) and
    InvalidRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        data = await _read_json(request, settings.max_request_mb * MIB)
        return _assemble(_parse(data), {}, caller, settings)
    if kind == "multipart/form-data":
        return await _read_form(request, caller, settings)
    raise BadRequest(415, "Send application/json or multipart/form-data.")


async def _read_json(request: Request, most_bytes: int) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > most_bytes:
            raise _too_large(most_bytes)
    return bytes(data)


async def _read_form(
    request: Request, caller: Identity, settings: Settings
) -> ReadBody:
    bounded = Request(
        request.scope, _bounded_receive(request, settings.max_upload_mb * MIB)
    )
    try:
        async with bounded.form(
            max_files=_MOST_FILES, max_part_size=settings.max_request_mb * MIB
        ) as form:
            parts = await _read_parts(form)
            body = form.get("request")
            if not isinstance(body, str):
                raise BadRequest(422, "The form needs a field “request” with the JSON.")
            return _assemble(_parse(body.encode("utf-8")), parts, caller, settings)
    except HTTPException as error:
        raise BadRequest(422, f"The form cannot be read: {error.detail}") from None
    except ClientDisconnect:
        raise BadRequest(422, "The request broke off.") from None


def _bounded_receive(request: Request, most_bytes: int) -> Any:
    seen = 0

    async def receive() -> Message:
        nonlocal seen
        message = await request.receive()
        seen += len(message.get("body", b""))
        if seen > most_bytes:
            raise _too_large(most_bytes)
        return message

    return receive


async def _read_parts(form: FormData) -> dict[str, bytes]:
    return {
        name: await value.read()
        for name, value in form.multi_items()
        if isinstance(value, UploadFile)
    }


def _too_large(most_bytes: int) -> BadRequest:
    return BadRequest(
        413, f"The request is larger than the {most_bytes // MIB} MiB allowed here."
    )


def _parse(data: bytes) -> RunBody:
    try:
        return RunBody.model_validate_json(data)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}"
            for fault in error.errors(include_input=False, include_url=False)
        ]
        raise BadRequest(422, "; ".join(faults[:_SHOWN_FAULTS])) from None


def _assemble(
    body: RunBody, parts: Mapping[str, bytes], caller: Identity, settings: Settings
) -> ReadBody:
    if body.packages and settings.installs is None:
        raise InvalidRequest(_NO_PACKAGES)
    request = RunRequest(
        steps=_steps(body),
        files=tuple(InputFile(file.name, _content(file, parts)) for file in body.files),
        stdin=_stdin(body, parts),
        limits=_limits(body, settings),
        run_id=body.run_id or new_run_id(),
        user=caller.user,
        chat=caller.chat,
        packages=tuple(body.packages or ()),
        network=body.network or "",
    )
    return ReadBody(request, body.output_kb, body.return_files)


def _steps(body: RunBody) -> tuple[Step, ...]:
    if (body.code is None) == (body.steps is None):
        raise InvalidRequest("Give either code or steps.")
    wanted = body.steps or [StepIn(language=body.language, code=body.code or "")]
    if not any(has_code(step.code) for step in wanted):
        raise no_code()
    return tuple(Step(language_named(step.language).name, step.code) for step in wanted)


def _stdin(body: RunBody, parts: Mapping[str, bytes]) -> bytes:
    if body.stdin_part is not None:
        return _part(body.stdin_part, parts)
    if body.stdin_base64 is not None:
        return _decoded(body.stdin_base64, "stdin_base64")
    return (body.stdin or "").encode("utf-8")


def _content(file: FileIn, parts: Mapping[str, bytes]) -> bytes:
    if (file.data is None) == (file.part is None):
        raise InvalidRequest("Give each file either data or part.")
    if file.part is not None:
        return _part(file.part, parts)
    return _decoded(file.data or "", "data")


def _part(name: str, parts: Mapping[str, bytes]) -> bytes:
    if name not in parts:
        raise InvalidRequest(f"The form has no part “{name}”.")
    return parts[name]


def _decoded(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"The field {field} is not base64.") from None


def _limits(body: RunBody, settings: Settings) -> Limits:
    known = {record.name for record in limit_records()}
    unknown = ", ".join(sorted(body.limits.keys() - known))[:100]
    if unknown:
        raise InvalidRequest(f"There are no limits called {unknown}.")
    return settings.limits.lowered(**body.limits)
