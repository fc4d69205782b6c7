"""The HTTP side: what can be called, and what each call answers."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from codebox.answers import Message, RunAnswer, answer_of
from codebox.bodies import RunBody, read_body
from codebox.execution import Ticket
from codebox.identity import Identity
from codebox.refusals import BadRequest, NotReady
from codebox.service import Service
from codebox.streaming import EventQueue, RunStream, until_gone
from sandbox_core.admission import Busy
from sandbox_core.languages import known_languages
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.listing import matching
from sandbox_core.models import RunResult
from sandbox_core.wire import NDJSON

__all__ = ["LanguageOut", "PackagesOut", "authenticate", "body_schema", "router"]

router = APIRouter()
_REFERENCE = {"$ref": "#/components/schemas/RunBody"}


class LanguageOut(BaseModel):
    """A language that can be run."""

    name: str
    title: str
    aliases: list[str]
    version: str = Field("", description="Empty when it is not known yet.")


class PackageOut(BaseModel):
    """An installed package."""

    name: str
    version: str


class PackagesOut(BaseModel):
    """What is installed for Python in the sandboxes."""

    python: str = Field(description="Version of Python.")
    packages: list[PackageOut]


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    texts = {
        401: "No good token.",
        413: "The request is too large.",
        415: "Neither JSON nor a form.",
        422: "The request breaks a rule.",
        429: "Too many calls, or too many runs wait. See Retry-After.",
        503: "Code cannot be run right now.",
    }
    return {
        status: {"model": Message, "description": texts[status]} for status in statuses
    }


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def authenticate(request: Request) -> Identity:
    """Who calls; every call but /health needs to know. Raises as Service.authenticate."""
    address = request.client.host if request.client else ""
    authorizations = len(request.headers.getlist("authorization"))
    headers = {name.lower(): value for name, value in request.headers.items()}
    return await _service(request).authenticate(headers, authorizations, address)


Caller = Annotated[Identity, Depends(authenticate)]
Served = Annotated[Service, Depends(_service)]
Filter = Annotated[
    str,
    Query(
        max_length=200,
        description="Only those whose names contain one of these words.",
    ),
]


@router.post(
    "/v1/run",
    operation_id="run_code",
    summary="Run a program in a fresh sandbox and get its output",
    response_model=RunAnswer,
    responses={
        200: {"content": {NDJSON: {"schema": {"type": "string"}}}},
        **_refusals(401, 413, 415, 422, 429, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _REFERENCE}},
        }
    },
)
async def run_code(request: Request, caller: Caller, service: Served) -> Response:
    """Run a program, or several one after another, in a fresh isolated Linux sandbox without
    network, unless the service's administrator allows one. Nothing persists from call to call.
    Print what you want to see."""
    await service.count_call(caller.user)
    body = await read_body(request, caller, service.settings)
    if NDJSON in request.headers.get("accept", ""):
        events = EventQueue()
        return RunStream(service.start(body.request, events.put), events)
    result = await _result_or_gone(request, service.start(body.request))
    answer = await asyncio.to_thread(
        answer_of,
        result,
        body.output_kb,
        body.return_files,
        service.settings.max_answer_mb,
    )
    return JSONResponse(answer.model_dump())


async def _result_or_gone(request: Request, ticket: Ticket) -> RunResult:
    """The result; the run is cancelled when the client is gone."""
    gone = asyncio.create_task(until_gone(request.receive))
    try:
        await asyncio.wait({ticket.task, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        ticket.cancel.cancel()  # changes nothing when it has ended
    return await ticket.result()


@router.delete("/v1/runs/{run_id}", include_in_schema=False)
async def stop_run(run_id: str, caller: Caller, service: Served) -> Response:
    """End a run of the caller's: whoever started it gets what it printed so far."""
    if not service.execution.stop(run_id, caller.user):
        raise BadRequest(404, "There is no such run.")
    return Response(status_code=200)


@router.get(
    "/v1/languages",
    operation_id="list_languages",
    summary="List the languages that can be run",
    responses=_refusals(401, 429, 503),
)
async def list_languages(
    caller: Caller, service: Served, filter: Filter = ""
) -> list[LanguageOut]:
    """The names that a run may use for its language. As long as no sandbox can be asked, those
    of all languages that the service knows."""
    try:
        service.check_ready()
        versions = await service.inventories.languages(caller.user)
    except (NotReady, Busy):
        versions = {entry.name: "" for entry in known_languages()}
    return [
        LanguageOut(
            name=entry.name,
            title=entry.title,
            aliases=list(entry.aliases),
            version=versions[entry.name],
        )
        for entry in known_languages()
        if entry.name in versions and matching((entry.name, *entry.aliases), filter)
    ]


@router.get(
    "/v1/packages",
    operation_id="list_packages",
    summary="List the Python packages in the sandbox",
    responses=_refusals(401, 429, 503),
)
async def list_packages(
    caller: Caller, service: Served, filter: Filter = ""
) -> PackagesOut:
    """Name and version of each installed package. Others cannot be installed."""
    await service.count_call(caller.user)
    service.check_ready()
    found = await service.inventories.of_python(caller.user)
    return PackagesOut(
        python=found.languages.get(PYTHON.name, ""),
        packages=[
            PackageOut(name=name, version=found.packages[name])
            for name in matching(found.packages, filter)
        ],
    )


@router.get("/health", include_in_schema=False)
async def health() -> dict[str, str]:
    """Alive. The only call without a token."""
    return {"status": "alive"}


@router.get("/ready", include_in_schema=False)
async def ready(caller: Caller, service: Served) -> Response:
    """Whether code can be run (200, else 503), and what was found."""
    well, findings = await service.readiness.findings()
    listed = [
        {"name": entry.name, "ok": entry.ok, "text": entry.text, "mend": entry.mend}
        for entry in findings
    ]
    return JSONResponse({"ready": well, "findings": listed}, 200 if well else 503)


@router.get("/metrics", include_in_schema=False)
async def metrics(caller: Caller, service: Served) -> Response:
    """Numbers for Prometheus."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def body_schema() -> dict[str, Any]:
    """The schemas of a request's body, which this module reads by hand."""
    template = "#/components/schemas/{model}"
    schema = RunBody.model_json_schema(ref_template=template)
    return {**schema.pop("$defs", {}), "RunBody": schema}
