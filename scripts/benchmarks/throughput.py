"""Many runs: twenty at once, and as many as possible for a minute."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from scripts.benchmarks.contenders import docker_run
from scripts.benchmarks.measurement import Measurement, at_least, ratio_of
from scripts.benchmarks.process_memory import resident_bytes
from scripts.benchmarks.programs import PRINT
from scripts.benchmarks.subject import Subject, run_python

__all__ = ["measure_throughput"]

_AT_ONCE = 20
# As many as the plugins run at a time by default.
_WORKERS = 4
_SLICES, _QUICK_SLICES = 6, 2
_SLICE_SECONDS, _QUICK_SLICE_SECONDS = 10.0, 2.0


def measure_throughput(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Ours and Docker's own command take turns of ten seconds."""
    is_quick = rounds < 10
    runner = subject.runner(is_warm=True)
    docker = docker_run(subject)

    def ours() -> None:
        run_python(runner, PRINT.code)

    def dockers() -> None:
        docker.milliseconds(PRINT)

    try:
        waits = [wait for _ in range(1 if is_quick else 3) for wait in _burst(ours)]
        yield Measurement(
            "parallel_20_print_ms",
            f"each of {_AT_ONCE} × print(1) asked for at once, {_WORKERS} at a time",
            "ms",
            tuple(waits),
        )
        seconds = _QUICK_SLICE_SECONDS if is_quick else _SLICE_SECONDS
        slices = _QUICK_SLICES if is_quick else _SLICES
        before = resident_bytes()
        pairs = [(_rate(ours, seconds), _rate(dockers, seconds)) for _ in range(slices)]
        growth = (resident_bytes() - before) / 1e6
    finally:
        runner.close()
    rate = Measurement(
        "sustained_runs_per_second",
        f"runs of print(1) for {slices * seconds:.0f} s, {_WORKERS} at a time",
        "/s",
        tuple(pair[0] for pair in pairs),
    )
    plain = Measurement(
        "sustained_docker_run_runsc_per_second",
        f"`docker run --runtime={subject.runtime}` the same way",
        "/s",
        tuple(pair[1] for pair in pairs),
    )
    yield rate
    yield plain
    yield ratio_of(
        "sustained_vs_docker_run_runsc_ratio",
        "runs / `docker run`",
        rate,
        plain,
        at_least(0.9),
    )
    yield Measurement(
        "sustained_memory_growth_mb",
        "growth of the host process meanwhile",
        "MB",
        (growth,),
    )


def _burst(run: Callable[[], None]) -> list[float]:
    """Milliseconds from when all were asked for to the end of each."""
    begin = time.monotonic()

    def milliseconds() -> float:
        run()
        return (time.monotonic() - begin) * 1000

    with ThreadPoolExecutor(_WORKERS) as pool:
        futures = [pool.submit(milliseconds) for _ in range(_AT_ONCE)]
        return [future.result() for future in futures]


def _rate(run: Callable[[], None], seconds: float) -> float:
    """Runs per second, each counted at its end."""
    begin = time.monotonic()

    def work() -> int:
        done = 0
        while time.monotonic() - begin < seconds:
            run()
            done += 1
        return done

    with ThreadPoolExecutor(_WORKERS) as pool:
        futures = [pool.submit(work) for _ in range(_WORKERS)]
        count = sum(future.result() for future in futures)
    return count / (time.monotonic() - begin)
