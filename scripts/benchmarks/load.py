"""Two hundred users at once: what they wait, whether it is fair, and what waiting costs."""

import asyncio
import time
from collections.abc import Iterator
from statistics import quantiles

import httpx

from scripts.benchmarks.measurement import Measurement, at_most
from scripts.benchmarks.service import ServiceUnderTest, running_service
from scripts.benchmarks.subject import BenchmarkError, Subject

__all__ = ["measure_load"]

_USERS = 200
_CROWD = 40  # further runs of one of them, who comes first
_QUEUED = 1000
_CONCURRENT = 4
_RUN_SECONDS = 300.0
_MOST_LATE = 0.1
_LATE = "codebox_loop_late_seconds"
_HELD = "codebox_loop_held_seconds"
_MOST_QUEUE_MB = 100
_MOST_CROWD_PERCENT = 5


def measure_load(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """The same for any number of rounds: it is long already."""
    settings = {
        "max_concurrent": _CONCURRENT,
        "max_concurrent_per_user": 2,
        "max_waiting": 2 * _QUEUED,
        "max_waiting_per_user": _QUEUED,
        "max_wait_seconds": _RUN_SECONDS,
        "rate_limit_rps": 1000,
        "rate_limit_burst": 10_000,
    }
    with running_service(subject, **settings) as service:
        yield from asyncio.run(_serve_everybody(service))
        yield asyncio.run(_fill_the_queue(service))
        yield from _told_by_the_loop(service)


async def _serve_everybody(service: ServiceUnderTest) -> list[Measurement]:
    others: list[float] = []
    crowd_meanwhile = 0

    async def run(client: httpx.AsyncClient, user: str, is_crowd: bool) -> None:
        nonlocal crowd_meanwhile
        seconds = await _call(service, client, user, "print(1)")
        if not is_crowd:
            others.append(seconds)
        elif len(others) < _USERS - 1:
            crowd_meanwhile += 1

    begin = time.monotonic()
    async with _client() as client:
        crowd = [
            asyncio.create_task(run(client, "user-0", True)) for _ in range(_CROWD)
        ]
        await asyncio.sleep(1)  # all of the crowd wait before anybody else comes
        single = [
            asyncio.create_task(run(client, f"user-{number}", False))
            for number in range(1, _USERS)
        ]
        await asyncio.gather(*crowd, *single)
    total = time.monotonic() - begin
    share = 100 * crowd_meanwhile / (crowd_meanwhile + len(others))
    waits = quantiles(others, n=100)
    return [
        Measurement(
            "load_200_users_runs_per_second",
            "200 users call at once: runs a second",
            "1/s",
            ((_USERS - 1 + _CROWD) / total,),
        ),
        Measurement(
            "load_200_users_p50_s",
            "200 users call at once: p50 until the result",
            "s",
            (waits[49],),
        ),
        Measurement(
            "load_200_users_p95_s",
            "200 users call at once: p95 until the result",
            "s",
            (waits[94],),
        ),
        Measurement(
            "load_share_of_one_user_percent",
            "of these runs, those of one user with 40 waiting",
            "%",
            (share,),
            (at_most(_MOST_CROWD_PERCENT),),
        ),
    ]


async def _fill_the_queue(service: ServiceUnderTest) -> Measurement:
    """All places are taken, and 1,000 requests wait until their clients go."""
    async with _client() as client:
        sleeper = "import time; time.sleep(25)"
        tasks = [
            asyncio.create_task(_call(service, client, f"sleeper-{n}", sleeper))
            for n in range(_CONCURRENT)
        ]
        await asyncio.sleep(3)
        before = service.memory_mb()
        tasks += [
            asyncio.create_task(
                _call(service, client, f"user-{n % _USERS}", "print(1)")
            )
            for n in range(_QUEUED)
        ]
        deadline = time.monotonic() + 20
        while (await _waiting(service)) < _QUEUED:
            if time.monotonic() > deadline:
                raise BenchmarkError("The requests do not get into the queue.")
            await asyncio.sleep(0.2)
        growth = service.memory_mb() - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    name = "memory of the service for 1,000 requests that wait"
    bounds = (at_most(_MOST_QUEUE_MB),)
    return Measurement("load_1000_waiting_memory_mb", name, "MB", (growth,), bounds)


async def _waiting(service: ServiceUnderTest) -> float:
    numbers = await asyncio.to_thread(service.metrics)
    return numbers["codebox_waiting"]


async def _call(
    service: ServiceUnderTest, client: httpx.AsyncClient, user: str, code: str
) -> float:
    """Seconds until the result. Raises BenchmarkError when it is none, or no good one."""
    begin = time.monotonic()
    answer = await client.post(
        f"{service.url}/v1/run", json={"code": code}, headers=service.headers(user)
    )
    if answer.status_code != 200 or answer.json()["outcome"] != "ok":
        raise BenchmarkError(f"HTTP {answer.status_code}: {answer.text[:200]}")
    return time.monotonic() - begin


def _client() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(limits=limits, timeout=_RUN_SECONDS)


def _told_by_the_loop(service: ServiceUnderTest) -> Iterator[Measurement]:
    numbers = service.metrics()
    asked = numbers[f"{_LATE}_count"]
    held = asked - numbers[f'{_HELD}_bucket{{le="{_MOST_LATE}"}}']
    name = "its event loop meanwhile: times that it was held for over 100 ms"
    yield Measurement("load_loop_held_count", name, "", (held,), (at_most(0),))
    late = asked - numbers[f'{_LATE}_bucket{{le="{_MOST_LATE}"}}']
    name = "the same with waiting for a processor of the busy machine"
    yield Measurement("load_loop_late_count", name, "", (late,))
    yield Measurement(
        "load_loop_late_mean_ms",
        "its event loop meanwhile: late on average",
        "ms",
        (1000 * numbers[f"{_LATE}_sum"] / asked,),
    )
