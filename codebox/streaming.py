"""A run as lines that arrive while it goes on, and its end when nobody listens any more."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import wait
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from codebox.execution import Ticket
from sandbox_core.models import RunEvent, RunResult
from sandbox_core.wire import ALIVE_LINE, NDJSON, encode_event, encode_result

__all__ = ["EventQueue", "RunStream", "until_gone"]

_ALIVE_SECONDS = 2.0
_SEND_SECONDS = 30.0
_MOST_WAITING = 16


class EventQueue:
    """Takes events from a run's own thread to the event loop. While the other side is slow,
    the thread waits, and the run's feed merges what comes meanwhile."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[RunEvent] = asyncio.Queue(_MOST_WAITING)
        self._closed = False

    def put(self, event: RunEvent) -> None:
        """Called in the run's thread. Drops the event once closed."""
        if self._closed:
            return
        handed = asyncio.run_coroutine_threadsafe(self._events.put(event), self._loop)
        while not self._closed and not handed.done():
            wait({handed}, _ALIVE_SECONDS)
        handed.cancel()

    async def get(self) -> RunEvent:
        """The next event."""
        return await self._events.get()

    def waiting(self) -> list[RunEvent]:
        """What is there already, without waiting."""
        found = []
        while not self._events.empty():
            found.append(self._events.get_nowait())
        return found

    def close(self) -> None:
        """Nobody listens any more."""
        self._closed = True


class RunStream(Response):
    """NDJSON: the events of a run, a sign of life every two seconds, and the result."""

    media_type = NDJSON

    def __init__(self, ticket: Ticket, events: EventQueue) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._ticket = ticket
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. The run is cancelled when the other side is gone, or too slow to be."""
        gone = asyncio.create_task(until_gone(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._events.close()
            self._ticket.cancel.cancel()  # changes nothing when it has ended
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            self._ticket.task.add_done_callback(_close_files)

    async def _send(self, send: Send) -> None:
        head = {
            "type": "http.response.start",
            "status": 200,
            "headers": self.raw_headers,
        }
        await send(head)
        async for line in self._lines():
            message = {"type": "http.response.body", "body": line, "more_body": True}
            await asyncio.wait_for(send(message), _SEND_SECONDS)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lines(self) -> AsyncIterator[bytes]:
        yield ALIVE_LINE
        ended: asyncio.Future[RunResult] = asyncio.shield(self._ticket.task)
        while not ended.done():
            next_event = asyncio.ensure_future(self._events.get())
            waited: set[asyncio.Future[Any]] = {next_event, ended}
            await asyncio.wait(
                waited,
                timeout=_ALIVE_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if next_event.done():
                yield encode_event(next_event.result())
                continue
            next_event.cancel()
            if not ended.done():
                yield ALIVE_LINE
        for event in self._events.waiting():
            yield encode_event(event)
        for line in encode_result(await ended):
            yield line


async def until_gone(receive: Receive) -> None:
    """Returns when the client of a request has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _close_files(task: asyncio.Task[RunResult]) -> None:
    if not task.cancelled():
        for entry in task.result().contents:
            entry.content.close()
