"""Every program in every way that this machine has, in turn."""

from collections import defaultdict
from collections.abc import Iterator

from scripts.benchmarks.contenders import Contender, contenders
from scripts.benchmarks.measurement import Measurement, at_most, ratio_of
from scripts.benchmarks.programs import PANDAS, PRINT, PROGRAMS, Program
from scripts.benchmarks.subject import Subject

__all__ = ["measure_comparison"]

# How much longer than Docker's own command a cold run may take.
_MOST_TIMES_DOCKER = {PRINT: 1.3, PANDAS: 1.1}

# Of what takes ten seconds and more, that many tell enough.
_SLOW_ROUNDS = 3


def measure_comparison(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Whole runs: from the request to the result. Of print(1) all rounds, and of the others
    half; when there are few, only print(1), and nothing warm, which waits for its pool.
    """
    is_quick = rounds < 10
    programs = (PRINT,) if is_quick else PROGRAMS
    all_contenders = contenders(subject, subject.others_python)
    able = [one for one in all_contenders if not (is_quick and one.key == "warm")]
    try:
        for program in programs:
            count = rounds if program is PRINT else rounds // 2
            yield from _compare(program, able, count)
    finally:
        for contender in all_contenders:
            contender.close()


def _compare(
    program: Program, all_contenders: list[Contender], rounds: int
) -> Iterator[Measurement]:
    able = [contender for contender in all_contenders if contender.can_run(program)]
    taken: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds + 1):
        for contender in able:
            if contender.is_slow and number > _SLOW_ROUNDS:
                continue
            value = contender.milliseconds(program)
            if number:  # the first round fills the machine's caches
                taken[contender.key].append(value)
    measured = {
        contender.key: Measurement(
            f"{contender.key}_{program.key}_ms",
            f"{program.title}: {contender.title}",
            "ms",
            tuple(taken[contender.key]),
        )
        for contender in able
    }
    yield from measured.values()
    docker = measured.get("docker_run_runsc")
    if docker is not None:
        most = _MOST_TIMES_DOCKER.get(program)
        bounds = () if most is None else (at_most(most),)
        yield ratio_of(
            f"cold_{program.key}_vs_docker_run_runsc_ratio",
            f"{program.title}: cold / `docker run` with gVisor",
            measured["cold"],
            docker,
            *bounds,
        )
