"""What a person waits for: the first output of a run in a warm sandbox."""

import time
from collections.abc import Iterator

from sandbox_core.models import RunEvent, RunRequest, Step
from sandbox_core.runner import LocalRunner
from scripts.benchmarks.contenders import docker_run, wait_for_warm_sandbox
from scripts.benchmarks.measurement import (
    Measurement,
    at_least,
    at_most,
    ratio_of,
)
from scripts.benchmarks.programs import CHART, NODE_LOG, PANDAS, PRINT, Program
from scripts.benchmarks.subject import BenchmarkError, Subject, run_request

__all__ = ["measure_warm_run"]


def measure_warm_run(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Each run beside one of `docker run`, so that a busy machine slows both."""
    runner = subject.runner(is_warm=True)
    docker = docker_run(subject)
    programs = PRINT, PANDAS, CHART, NODE_LOG
    first: dict[Program, list[float]] = {program: [] for program in programs}
    whole: dict[Program, list[float]] = {program: [] for program in programs}
    dockers = []
    try:
        for number in range(rounds + 1):
            # The first round fills the machine's caches.
            for program, taken in first.items() if number else [(PRINT, [])]:
                wait_for_warm_sandbox(runner, program.language)
                output, result = _timed(runner, program)
                taken.append(output)
                if number:
                    whole[program].append(result)
            dockers.append(docker.milliseconds(PRINT))
        stats = runner.pool_stats()
    finally:
        runner.close()
    if stats.misses:
        raise BenchmarkError(f"{stats.misses} runs found no warm sandbox.")
    warm = Measurement(
        "warm_print_first_output_ms",
        "warm print(1), from run() to the first output",
        "ms",
        tuple(first[PRINT]),
        (at_most(20), at_most(80, "p95")),
    )
    yield warm
    plain = Measurement(
        "docker_run_runsc_beside_warm_ms",
        f"`docker run --runtime={subject.runtime}` beside it",
        "ms",
        tuple(dockers[1:]),
    )
    yield plain
    yield ratio_of(
        "warm_print_vs_docker_run_runsc_ratio",
        "so many times faster",
        plain,
        warm,
        at_least(20),
    )
    yield Measurement(
        "warm_print_result_ms",
        "warm print(1), to the complete result",
        "ms",
        tuple(whole[PRINT]),
    )
    yield Measurement(
        "warm_pandas_first_output_ms",
        "warm pandas describe, to the first output",
        "ms",
        tuple(first[PANDAS]),
        (at_most(60),),
    )
    yield Measurement(
        "warm_chart_result_ms",
        "warm chart of matplotlib, to the result with its PNG",
        "ms",
        tuple(whole[CHART]),
        (at_most(350),),
    )
    yield Measurement(
        "warm_node_first_output_ms",
        "warm console.log(1) of Node.js, to the first output",
        "ms",
        tuple(first[NODE_LOG]),
    )
    yield Measurement(
        "pool_refill_ms",
        "time in which the pool makes a warm sandbox",
        "ms",
        (stats.refill_seconds * 1000,),
    )


def _timed(runner: LocalRunner, program: Program) -> tuple[float, float]:
    """(milliseconds to the first output, to the result)."""
    arrived: list[float] = []

    def note(event: RunEvent) -> None:
        if event.kind == "text":
            arrived.append(time.monotonic())

    begin = time.monotonic()
    request = RunRequest((Step(program.language, program.code),), user="bench")
    result = run_request(runner, request, note)
    if not arrived:
        raise BenchmarkError(f"{program.title} printed nothing.")
    return (arrived[0] - begin) * 1000, result.total_seconds * 1000
