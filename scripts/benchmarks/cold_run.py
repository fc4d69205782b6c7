"""A cold run of print(1): this project's runner against Docker's own command."""

import time
from collections.abc import Iterator

from scripts.benchmarks.measurement import Measurement, at_most, ratio_of
from scripts.benchmarks.subject import BenchmarkError, Subject, docker, run_python

__all__ = ["measure_cold_run"]

_PROGRAM = "print(1)"
_MOST_TIMES_DOCKER = 1.3


def measure_cold_run(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Both in turn, so that what else happens on the machine hits both."""
    runner = subject.runner()
    ours, dockers = [], []
    try:
        for number in range(rounds + 1):
            pair = (_our_run(runner), _docker_run(subject))
            if number:  # the first round fills the machine's caches
                ours.append(pair[0])
                dockers.append(pair[1])
    finally:
        runner.close()
    cold = Measurement(
        "cold_print_ms", "cold run, from the request to the result", "ms", tuple(ours)
    )
    plain = Measurement(
        "docker_run_runsc_ms",
        f"`docker run --rm --runtime={subject.runtime}` of the same",
        "ms",
        tuple(dockers),
    )
    yield cold
    yield plain
    yield ratio_of(
        "cold_print_vs_docker_run_runsc_ratio",
        "cold run / `docker run`",
        cold,
        plain,
        at_most(_MOST_TIMES_DOCKER),
    )


def _our_run(runner) -> float:
    result = run_python(runner, _PROGRAM)
    _check_output(str(result.stdout))
    return result.total_seconds * 1000


def _docker_run(subject: Subject) -> float:
    begin = time.monotonic()
    said = docker(
        "run",
        "--rm",
        f"--runtime={subject.runtime}",
        "--network=none",
        subject.image,
        "python3",
        "-c",
        _PROGRAM,
    )
    seconds = time.monotonic() - begin
    _check_output(said)
    return seconds * 1000


def _check_output(text: str) -> None:
    if text != "1\n":
        raise BenchmarkError(f"print(1) printed {text[:80]!r}.")
