"""A program that only calculates: here and in a container that has nothing of ours."""

from collections.abc import Iterator

from scripts.benchmarks.contenders import docker_run, output_of
from scripts.benchmarks.measurement import Measurement, at_least, ratio_of
from scripts.benchmarks.subject import BenchmarkError, Subject, run_python

__all__ = ["measure_processor"]

_PROGRAM = """
import time
begin = time.perf_counter()
total = 0
for number in range(5_000_000):
    total += number * number % 7
print(time.perf_counter() - begin)
"""


def measure_processor(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """The program tells how long it took, without any start, in turn."""
    runner = subject.runner()
    docker = docker_run(subject)
    ours, plain = [], []
    try:
        for _ in range(rounds):
            ours.append(_milliseconds(str(run_python(runner, _PROGRAM).stdout)))
            plain.append(_milliseconds(output_of(docker.command(_PROGRAM))))
    finally:
        runner.close()
    mine = Measurement("cpu_bound_ms", "a program that calculates", "ms", tuple(ours))
    other = Measurement(
        "cpu_bound_docker_run_runsc_ms",
        f"the same in `docker run --runtime={subject.runtime}`",
        "ms",
        tuple(plain),
    )
    yield mine
    yield other
    yield ratio_of(
        "cpu_bound_speed_ratio", "our speed / gVisor's own", other, mine, at_least(0.9)
    )


def _milliseconds(text: str) -> float:
    try:
        return float(text) * 1000
    except ValueError as error:
        raise BenchmarkError(f"The program printed {text[:80]!r}.") from error
