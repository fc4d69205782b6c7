"""The server process: uvicorn with a shutdown in which callers still get their results."""

import asyncio
import gc
import logging
import sys
from types import FrameType

import uvicorn

from codebox.app import make_app
from codebox.execution import Execution
from codebox.fair_selector import FairSelector
from codebox.settings import Settings

__all__ = ["serve"]

_FAREWELL_SECONDS = 5.0
# Connections that wait to be accepted; above it clients wait for a second.
_BACKLOG = 1024
_FULL_COLLECTIONS = 1000


class _Server(uvicorn.Server):
    """At a signal: no new runs; those under way may go on for a while, then are cancelled in
    time to hand over what they have."""

    def __init__(
        self, config: uvicorn.Config, execution: Execution, seconds: float
    ) -> None:
        super().__init__(config)
        self._execution = execution
        self._seconds = seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn in the main thread for SIGTERM and SIGINT."""
        asyncio.get_running_loop().call_soon_threadsafe(self._drain)
        super().handle_exit(sig, frame)

    def _drain(self) -> None:
        self._execution.drain()
        loop = asyncio.get_running_loop()
        loop.call_later(self._seconds, self._execution.stop_all)


def serve(settings: Settings) -> None:
    """Serve until a signal comes."""
    _set_up_logs(settings.log_level.upper())
    app = make_app(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        backlog=_BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.shutdown_seconds + _FAREWELL_SECONDS),
    )
    execution: Execution = app.state.service.execution
    server = _Server(config, execution, settings.shutdown_seconds)
    # What is loaded stays: to search it for garbage would hold the loop for 0.3 s each time.
    # Nor is all the rest searched so often; most garbage is young.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], _FULL_COLLECTIONS)
    with asyncio.Runner(loop_factory=_make_loop) as runner:
        runner.run(server.serve())


def _make_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(FairSelector())


def _set_up_logs(level: str) -> None:
    """Logs go to stderr, the audit lines bare to stdout. Who called what is not logged: an
    address may hold what somebody took for a good place for a token."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    for name in ("httpx", "httpcore", "mcp"):
        logging.getLogger(name).setLevel("WARNING")
    audit = logging.getLogger("run_code.audit")
    audit.addHandler(logging.StreamHandler(sys.stdout))
    audit.setLevel("INFO")
    audit.propagate = False
