"""Runs requests by way of a codebox service: a runner like the local one, over HTTP."""

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

from sandbox_core.archive import plan_files
from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, Finding
from sandbox_core.errors import ChannelClosed, InvalidRequest, SandboxError
from sandbox_core.event_feed import EventFeed
from sandbox_core.models import OnEvent, RunRequest, RunResult
from sandbox_core.outcome import Outcome
from sandbox_core.service_client import ServiceClient
from sandbox_core.streams import Transcript
from sandbox_core.wire import NDJSON, RunReader, encode_request

__all__ = ["RemoteRunner"]

_remote_log = logging.getLogger("run_code.remote")
# How long a stopped run may take to hand over what it has.
_FAREWELL_SECONDS = 5.0
_STOPPED = "The run was stopped on request."


class RemoteRunner:
    """Runs each request in a codebox service. See Runner, and ServiceClient for ``url``,
    ``secret``, ``silence_seconds`` and what is raised when they cannot be right."""

    def __init__(self, url: str, secret: str, silence_seconds: float = 30.0) -> None:
        self._client = ServiceClient(url, secret, silence_seconds)

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        plan_files(request)
        cancel = cancel or CancelToken()
        started = time.monotonic()
        transcript = Transcript(request.limits.kept_output_kib * 1024)
        feed = EventFeed(on_event)
        try:
            result = self._converse(request, transcript, feed, cancel)
        except InvalidRequest:
            raise
        except SandboxError as problem:
            result = _lost(request, transcript, cancel, problem)
        finally:
            feed.close()
        # Apart from the service's own time, so that the way there can be told from it.
        evidence = {
            **result.evidence,
            "service_ms": f"{1000 * result.total_seconds:.1f}",
        }
        total = time.monotonic() - started
        return replace(result, total_seconds=total, evidence=evidence)

    def findings(self) -> list[Finding]:
        """What the service says of itself, for the doctor. Never raises for a fault."""
        try:
            with self._client.call("GET", "/ready", accepted=(200, 503)) as answer:
                return [Finding(**entry) for entry in answer.json()["findings"]]
        except (SandboxError, ValueError, KeyError, TypeError) as error:
            mend = "set CODEBOX_API_URL and CODEBOX_SECRET as the service has them"
            return [Finding("codebox", False, str(error), mend)]

    def close(self) -> None:
        """See Runner.close."""
        self._client.close()

    def _converse(
        self,
        request: RunRequest,
        transcript: Transcript,
        feed: EventFeed,
        cancel: CancelToken,
    ) -> RunResult:
        if cancel.is_set():
            raise ChannelClosed(_STOPPED)
        answer = self._client.call(
            "POST",
            "/v1/run",
            request.user,
            request.chat,
            **_content(request),
        )
        cancel.call_on_cancel(lambda: self._ask_to_stop(request))
        with answer, closing(RunReader()) as reader:
            for line in _until_farewell(self._client.lines(answer), cancel):
                event = reader.take(line)
                if event is not None:
                    feed.put(event)
                    if event.kind == "text":
                        transcript.add(event.stream, event.text)
                if reader.result is not None:
                    return reader.result
        raise ChannelClosed(
            "The code service ended the run without a result. Try again; if it stays, tell "
            "your administrator."
        )

    def _ask_to_stop(self, request: RunRequest) -> None:
        """Without waiting: whoever cancels may be an event loop."""
        threading.Thread(
            target=self._stop, args=(request,), name="run-code-stop", daemon=True
        ).start()

    def _stop(self, request: RunRequest) -> None:
        path = f"/v1/runs/{request.run_id}"
        try:
            self._client.call("DELETE", path, request.user, request.chat).close()
        except SandboxError as problem:
            # The end of the connection stops the run as well, only without a farewell.
            _remote_log.info("run %s: not stopped: %s", request.run_id, problem)


def _content(request: RunRequest) -> dict[str, Any]:
    """Files and stdin travel as they are, beside the JSON; without them it is the JSON."""
    plain, contents = encode_request(request)
    headers = {"Accept": NDJSON}
    if not contents:
        return {"headers": headers, "json": plain}
    parts: dict[str, Any] = {"request": (None, json.dumps(plain), "application/json")}
    parts |= {name: ("content", data) for name, data in contents.items()}
    return {"headers": headers, "files": parts}


def _until_farewell(lines: Iterator[bytes], cancel: CancelToken) -> Iterator[bytes]:
    """The lines; of a stopped run those that come in time. The service gives a sign of life
    every two seconds. Raises ChannelClosed."""
    farewell = None
    for line in lines:
        yield line
        if cancel.is_set():
            farewell = farewell or Deadline(_FAREWELL_SECONDS)
            if farewell.passed():
                raise ChannelClosed(_STOPPED)


def _lost(
    request: RunRequest,
    transcript: Transcript,
    cancel: CancelToken,
    problem: SandboxError,
) -> RunResult:
    """A run of which no result came: what it printed is kept."""
    run_id, cancelled = request.run_id, cancel.is_set()
    if not cancelled:
        _remote_log.error("run %s: %s (%s)", run_id, problem, problem.detail)
    stdout, stderr, output = transcript.finish()
    return RunResult(
        run_id,
        Outcome.CANCELLED if cancelled else Outcome.SANDBOX_ERROR,
        _STOPPED if cancelled else str(problem),
        stdout=stdout,
        stderr=stderr,
        output=output,
        evidence={"engine": "codebox"},
    )
