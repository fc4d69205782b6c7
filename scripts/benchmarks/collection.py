"""What it takes to bring a file back: from the end of the program to the end of the run."""

from collections.abc import Iterator

from sandbox_core.limits import MIB
from scripts.benchmarks.measurement import Measurement
from scripts.benchmarks.subject import BenchmarkError, Subject, run_python
from scripts.benchmarks.watched_engine import DONE, STEP_ENDED, WatchedEngine

__all__ = ["measure_collection"]

_NO_FILE = "pass"
_ONE_FILE = f"""
import os
with open("file.bin", "wb") as file:
    file.write(os.urandom({MIB}))
"""


def measure_collection(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Without any file and with one of 1 MiB, in turn."""
    engine = WatchedEngine(subject)
    runner = subject.runner(engine)
    times: dict[str, list[float]] = {_NO_FILE: [], _ONE_FILE: []}
    try:
        for _ in range(rounds):
            for program, taken in times.items():
                result = run_python(runner, program)
                expected = [MIB] if program == _ONE_FILE else []
                if [file.size for file in result.files] != expected:
                    raise BenchmarkError("The file was not brought back whole.")
                taken.append((engine.at[DONE] - engine.at[STEP_ENDED]) * 1000)
    finally:
        runner.close()
    name = "from the program's end to the result"
    yield Measurement(
        "collect_nothing_ms", f"{name}, no file", "ms", tuple(times[_NO_FILE])
    )
    yield Measurement(
        "collect_1mib_ms", f"{name}, one file of 1 MiB", "ms", tuple(times[_ONE_FILE])
    )
