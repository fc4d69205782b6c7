"""Numbers for Prometheus: runs, times, queue and caps."""

import asyncio
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest

from codebox.settings import Settings
from sandbox_core.models import RunRequest, RunResult

__all__ = ["Metrics"]

_SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600)
_LATE_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
_PULSE_SECONDS = 0.05


class Metrics:
    """The numbers of one service. No number tells one user from another."""

    def __init__(self, settings: Settings) -> None:
        self._registry = CollectorRegistry()
        self._runs = self._counter("runs", "Ended runs", ("outcome", "language"))
        self._refusals = self._counter("refusals", "Calls refused", ("reason",))
        self._seconds = self._histogram(
            "run_seconds", "From the start of a sandbox to its result", ("language",)
        )
        self._queued = self._histogram("queued_seconds", "Waiting before the start", ())
        self._running = self._gauge("running", "Runs at this moment")
        self._waiting = self._gauge("waiting", "Runs that wait at this moment")
        self._ready = self._gauge("ready_sandboxes", "Sandboxes that are kept ready")
        self._late = self._histogram(
            "loop_late_seconds",
            "How late the event loop was, asked 20 times a second",
            (),
            _LATE_SECONDS,
        )
        self._held = self._histogram(
            "loop_held_seconds",
            "How much of that was the service's own work",
            (),
            _LATE_SECONDS,
        )
        cap = self._gauge("cap_running", "Most runs at one time")
        cap.set(settings.max_concurrent)
        cap = self._gauge("cap_waiting", "Most runs that may wait")
        cap.set(settings.max_waiting)

    def watch_queue(self, counts: Callable[[], tuple[int, int]]) -> None:
        """Read running and waiting from here whenever they are asked for."""
        self._running.set_function(lambda: counts()[0])
        self._waiting.set_function(lambda: counts()[1])

    def watch_pool(self, count_ready: Callable[[], int]) -> None:
        """Read the number of ready sandboxes from here whenever it is asked for."""
        self._ready.set_function(count_ready)

    async def watch_loop(self) -> None:
        """Note for ever how late the event loop is: whatever blocks it, blocks everybody."""
        loop = asyncio.get_running_loop()
        while True:
            due, worked = loop.time() + _PULSE_SECONDS, time.process_time()
            await asyncio.sleep(_PULSE_SECONDS)
            late, worked = loop.time() - due, time.process_time() - worked
            self._late.observe(max(0.0, late))
            # The rest is a machine that has no processor for us.
            self._held.observe(max(0.0, min(late, worked)))

    def count_run(self, request: RunRequest, result: RunResult, waited: float) -> None:
        """A run has ended. A run of several languages counts for its first."""
        language = request.steps[0].language
        self._runs.labels(str(result.outcome), language).inc()
        self._seconds.labels(language).observe(result.total_seconds)
        self._queued.observe(waited)

    def count_refusal(self, reason: str) -> None:
        """A call was refused: ``token``, ``rate``, ``busy``, ``invalid`` or ``not_ready``."""
        self._refusals.labels(reason).inc()

    def text(self) -> bytes:
        """All numbers in Prometheus' text format."""
        return generate_latest(self._registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"codebox_{name}", text, labels, registry=self._registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"codebox_{name}", text, registry=self._registry)

    def _histogram(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...],
        buckets: tuple[float, ...] = _SECONDS,
    ) -> Histogram:
        return Histogram(
            f"codebox_{name}", text, labels, registry=self._registry, buckets=buckets
        )
