"""The ASGI application: the HTTP side, the MCP side behind a guard, and one set of answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codebox.api import authenticate, body_schema, router
from codebox.mcp_tools import CALLER, CANCEL, make_mcp_server
from codebox.refusals import CAUSES, refusal_for
from codebox.service import Service
from codebox.settings import Settings
from sandbox_core.limits import MIB

__all__ = ["make_app"]

_TITLE = "codebox"
_ABOUT = "Runs code in gVisor sandboxes for many users."
_VERSION = "1"


def make_app(settings: Settings) -> FastAPI:
    """The application for these settings. Its service is ``app.state.service``."""
    service = Service(settings)
    server = make_mcp_server(service)
    mcp_app = server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.max_request_mb * MIB,
        # It guards servers that trust whoever reaches them; here every call has a token.
        transport_security=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running(), server.session_manager.run():
            yield

    app = FastAPI(
        title=_TITLE,
        description=_ABOUT,
        version=_VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.include_router(router)
    app.mount("/", _Guard(mcp_app, app))
    for cause in CAUSES:
        app.add_exception_handler(cause, _refuse)
    app.add_exception_handler(HTTPException, _as_message)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _fault)
    app.openapi = _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """FastAPI's document with the schemas of what is read by hand, and how to sign in."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        document = make()
        document["components"]["schemas"].update(body_schema())
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}
        }
        document["security"] = [{"bearer": []}]
        return document

    return openapi


async def _refuse(request: Request, cause: Exception) -> Response:
    refusal = refusal_for(cause)
    request.app.state.service.metrics.count_refusal(refusal.reason)
    return JSONResponse(refusal.body(), refusal.status, refusal.headers())


async def _as_message(request: Request, cause: Exception) -> Response:
    assert isinstance(cause, HTTPException)
    body = {"message": str(cause.detail)}
    return JSONResponse(body, cause.status_code, cause.headers)


async def _invalid(request: Request, cause: Exception) -> Response:
    return JSONResponse({"message": "The request breaks a rule."}, 422)


async def _fault(request: Request, cause: Exception) -> Response:
    return JSONResponse({"message": "The code service has a fault."}, 500)


class _Guard:
    """Lets only calls with a good token through to the MCP side, and ends their runs when
    the client is gone: in plain JSON answers the SDK does not look for that."""

    def __init__(self, inner: ASGIApp, app: FastAPI) -> None:
        self._inner = inner
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        scope = {**scope, "app": self._app}
        request = Request(scope, receive)
        try:
            caller = await authenticate(request)
        except CAUSES as cause:
            answer = await _refuse(request, cause)
            await answer(scope, receive, send)
            return
        cancels: list[Callable[[], None]] = []
        inbox = _Inbox(receive, cancels)
        try:
            await self._inner(
                {**scope, CALLER: caller, CANCEL: cancels}, inbox.receive, send
            )
        finally:
            await inbox.close()


class _Inbox:
    """Reads on after the body, so that the end of the connection is seen at once."""

    def __init__(self, receive: Receive, cancels: list[Callable[[], None]]) -> None:
        self._receive = receive
        self._cancels = cancels
        self._messages: asyncio.Queue[Message] = asyncio.Queue(1)
        self._reader = asyncio.create_task(self._read())

    async def receive(self) -> Message:
        """The next message, as from the server."""
        return await self._messages.get()

    async def close(self) -> None:
        """Stop reading."""
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                for cancel in self._cancels:
                    cancel()
            await self._messages.put(message)
            if message["type"] == "http.disconnect":
                return
