"""What it takes to move files into a sandbox and out of it, beside ``docker cp`` with runc."""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox_core.limits import MIB, Limits
from sandbox_core.models import InputFile, RunRequest, RunResult, Step
from sandbox_core.runner import LocalRunner
from scripts.benchmarks.measurement import Measurement, at_least, at_most, ratio_of
from scripts.benchmarks.process_memory import resident_bytes
from scripts.benchmarks.subject import BenchmarkError, Subject, docker, run_request
from scripts.benchmarks.watched_engine import (
    DONE,
    FILE_SENT,
    STARTED,
    STEP_ENDED,
    WatchedEngine,
)

__all__ = ["measure_files"]

_MOST_ROUNDS = 7
_LARGE_MIB = 100
_ENOUGH_MIB_PER_SECOND = 100
_ENOUGH_OF_DOCKER_CP = 0.35
_LIMITS = Limits(seconds=60, work_mib=256, file_mib=_LARGE_MIB)
_NO_FILE = ":"
_LARGE_FILE = f"head -c {_LARGE_MIB}M /dev/urandom > out.bin"
_SAMPLE_SECONDS = 0.005


def measure_files(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """A large file in and out, each in turn with ``docker cp``; and a small one in."""
    with tempfile.TemporaryDirectory() as folder, _plain_container(subject) as plain:
        engine = WatchedEngine(subject)
        runner = LocalRunner(engine, subject.image, subject.runtime)
        try:
            yield from _Trips(engine, runner, Path(folder), plain).measure(
                min(rounds, _MOST_ROUNDS)
            )
        finally:
            runner.close()


class _Trips:
    """The ways that are timed: ours, and those of ``docker cp`` with a plain container."""

    def __init__(
        self, engine: WatchedEngine, runner: LocalRunner, folder: Path, plain: str
    ) -> None:
        self._engine = engine
        self._runner = runner
        self._local = folder / "large.bin"
        self._local.write_bytes(os.urandom(MIB) * _LARGE_MIB)
        self._inside = f"{plain}:/tmp/large.bin"

    def measure(self, rounds: int) -> Iterator[Measurement]:
        """All of them in turn, so that a busy moment of the machine hits all alike."""
        growth: list[float] = []
        times: dict[Callable[[], float], list[float]] = {
            trip: []
            for trip in (self.large_in, self.cp_in, self.large_out, self.cp_out)
        }
        small: list[float] = []
        for _ in range(rounds):
            with _memory_growth(growth):
                for trip, taken in times.items():
                    taken.append(trip())
            small.append((self.small_in() - self.nothing_in()) * 1000)
        for way, ours, docker_cp in (
            ("in", times[self.large_in], times[self.cp_in]),
            ("out", times[self.large_out], times[self.cp_out]),
        ):
            yield from _speeds(way, ours, docker_cp)
        yield Measurement(
            "files_in_1mib_ms",
            "1 MiB in, beside no file",
            "ms",
            tuple(small),
            (at_most(40),),
        )
        yield Measurement(
            "files_memory_growth_mib",
            f"growth of the host's memory with {_LARGE_MIB} MiB in and out",
            "MiB",
            tuple(growth),
            (at_most(64),),
        )

    def large_in(self) -> float:
        """Seconds from the first byte sent to the start of the program."""
        with self._local.open("rb") as content:
            return self._time_in(InputFile("large.bin", content=content))

    def small_in(self) -> float:
        """The same for 1 MiB."""
        return self._time_in(InputFile("small.bin", os.urandom(MIB)))

    def nothing_in(self) -> float:
        """The same for the program alone."""
        return self._time_in()

    def _time_in(self, *files: InputFile) -> float:
        self._run(_NO_FILE, *files)
        return self._engine.at[STARTED] - self._engine.at[FILE_SENT]

    def large_out(self) -> float:
        """Seconds from the end of the program to the end of the run."""
        result = self._run(_LARGE_FILE)
        if [file.size for file in result.files] != [_LARGE_MIB * MIB]:
            raise BenchmarkError("The file was not brought back whole.")
        result.files[0].content.close()
        return self._engine.at[DONE] - self._engine.at[STEP_ENDED]

    def cp_in(self) -> float:
        """Seconds that ``docker cp`` takes."""
        return _timed_cp(str(self._local), self._inside)

    def cp_out(self) -> float:
        """The same for the other direction; needs a cp_in before."""
        return _timed_cp(self._inside, f"{self._local}.back")

    def _run(self, code: str, *files: InputFile) -> RunResult:
        request = RunRequest((Step("bash", code),), files=files, limits=_LIMITS)
        return run_request(self._runner, request)


def _speeds(
    way: str, ours: list[float], docker_cp: list[float]
) -> Iterator[Measurement]:
    """Ours, docker's, and their ratio. One bound of two is enough, on whatever machine this
    is: the ratio counts only where our speed is below the absolute one."""
    name = f"{_LARGE_MIB} MiB {way}"
    speed = _speed(f"files_{way}_100mib_mib_per_s", name, ours)
    plain = _speed(
        f"docker_cp_{way}_mib_per_s", f"{name}, docker cp with runc", docker_cp
    )
    is_fast = speed.median >= _ENOUGH_MIB_PER_SECOND
    bounds = () if is_fast else (at_least(_ENOUGH_OF_DOCKER_CP),)
    yield speed
    yield plain
    yield ratio_of(
        f"files_{way}_vs_docker_cp_ratio", f"{name} / docker cp", speed, plain, *bounds
    )


def _speed(key: str, name: str, seconds: list[float]) -> Measurement:
    speeds = tuple(_LARGE_MIB / taken for taken in seconds)
    return Measurement(key, name, "MiB/s", speeds)


def _timed_cp(source: str, target: str) -> float:
    before = time.monotonic()
    docker("cp", source, target)
    return time.monotonic() - before


@contextmanager
def _plain_container(subject: Subject) -> Iterator[str]:
    """The id of a running container under runc, gone afterwards."""
    command = ("run", "--detach", "--rm", "--runtime", "runc", "--network", "none")
    plain = docker(*command, subject.image, "sleep", "600").strip()
    try:
        yield plain
    finally:
        docker("rm", "--force", plain)


@contextmanager
def _memory_growth(growth: list[float]) -> Iterator[None]:
    """Append by how many MiB this process grew at most meanwhile."""
    over = threading.Event()
    before = highest = resident_bytes() / MIB

    def watch() -> None:
        nonlocal highest
        while not over.wait(_SAMPLE_SECONDS):
            highest = max(highest, resident_bytes() / MIB)

    watcher = threading.Thread(target=watch, name="memory")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    growth.append(highest - before)
