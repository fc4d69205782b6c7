"""What the way through codebox adds to a run, against the same runner without it."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from sandbox_core.remote_runner import RemoteRunner
from sandbox_core.runner import LocalRunner, Runner
from scripts.benchmarks.measurement import Measurement, at_most
from scripts.benchmarks.programs import PRINT
from scripts.benchmarks.service import ServiceUnderTest, running_service
from scripts.benchmarks.subject import BenchmarkError, Subject, run_python

__all__ = ["measure_overhead"]

_MOST_MS = 15
_FILL_SECONDS = 60.0


def measure_overhead(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Directly and by the service in turn, first cold, then warm."""
    for kind, size in (("cold", 0), ("warm", 1)):
        direct = subject.runner(is_warm=bool(size))
        with (
            running_service(
                subject, warm_sandboxes=size, rate_limit_rps=1000
            ) as service,
            closing(direct),
            closing(RemoteRunner(service.url, service.secret)) as remote,
        ):
            settled = partial(_are_ready, size, direct, service)
            yield from _compare(kind, direct, remote, rounds, settled)


def _are_ready(size: int, direct: LocalRunner, service: ServiceUnderTest) -> bool:
    there = service.metrics()["codebox_ready_sandboxes"]
    return direct.pool_stats().idle == there == size


def _compare(
    kind: str,
    direct: Runner,
    remote: Runner,
    rounds: int,
    settled: Callable[[], bool],
) -> Iterator[Measurement]:
    straight: list[float] = []
    through: list[float] = []
    added: list[float] = []
    for number in range(rounds + 1):
        # Each time the other one is first: what one leaves behind may slow down the next.
        for runner in (direct, remote) if number % 2 else (remote, direct):
            if number:
                _wait_until(settled)
            result = run_python(runner, PRINT.code)
            if not number:  # fills caches, and starts the pools
                continue
            if (result.evidence["warm"] == "yes") != (kind == "warm"):
                raise BenchmarkError(f"A run that should be {kind} was not.")
            taken = result.total_seconds * 1000
            if runner is direct:
                straight.append(taken)
            else:
                through.append(taken)
                added.append(taken - float(result.evidence["service_ms"]))
    yield Measurement(
        f"service_direct_{kind}_ms", f"{kind} run, directly", "ms", tuple(straight)
    )
    yield Measurement(
        f"service_through_{kind}_ms",
        f"{kind} run, through codebox",
        "ms",
        tuple(through),
    )
    name = f"{kind} run: added by codebox to the run inside it"
    bounds = (at_most(_MOST_MS),)
    yield Measurement(f"service_overhead_{kind}_ms", name, "ms", tuple(added), bounds)


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _FILL_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise BenchmarkError("The ready sandboxes do not get ready.")
        time.sleep(0.1)
