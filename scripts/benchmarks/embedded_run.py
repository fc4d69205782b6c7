"""A cold run of print(1) over the embedded engine against the same over Docker."""

import os
from collections.abc import Iterator

from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.runner import LocalRunner
from scripts.benchmarks.measurement import Measurement, at_most, ratio_of
from scripts.benchmarks.programs import PRINT
from scripts.benchmarks.subject import Subject, run_python

__all__ = ["measure_embedded_run"]

_MOST_OF_DOCKER = 0.6


def measure_embedded_run(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Both in turn. The image is the one that scripts/rootfs prepared under this name."""
    images = os.environ.get("RUN_CODE_IMAGES_FOLDER", "")
    runsc = os.environ.get("RUN_CODE_RUNSC_PATH") or subject.runsc()
    engine = RunscEngine(subject.image, runsc, images)
    over_docker = subject.runner()
    embedded = LocalRunner(engine, subject.image)
    times: dict[LocalRunner, list[float]] = {over_docker: [], embedded: []}
    try:
        for number in range(rounds + 1):
            for runner, taken in times.items():
                result = run_python(runner, PRINT.code)
                PRINT.check_output(str(result.stdout))
                if number:  # the first round fills the machine's caches
                    taken.append(result.total_seconds * 1000)
    finally:
        for runner in times:
            runner.close()
    docker = Measurement(
        "embedded_docker_cold_ms",
        "cold run over Docker",
        "ms",
        tuple(times[over_docker]),
    )
    ours = Measurement(
        "embedded_cold_ms", "cold run, embedded engine", "ms", tuple(times[embedded])
    )
    yield docker
    yield ours
    yield ratio_of(
        "embedded_vs_docker_ratio",
        "embedded / Docker",
        ours,
        docker,
        at_most(_MOST_OF_DOCKER),
    )
