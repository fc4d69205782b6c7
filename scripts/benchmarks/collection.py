"""What it takes to bring a file back: from the end of the program to the end of the run."""

import time
from collections.abc import Iterator

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, SandboxSpec
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.engines.docker_channel import DockerChannel
from sandbox_core.limits import MIB
from sandbox_core.protocol import FrameReader
from scripts.benchmarks.measurement import Measurement
from scripts.benchmarks.subject import BenchmarkError, Subject, run_python

__all__ = ["measure_collection"]

_STEP_ENDED, _DONE = "x", "z"
_NO_FILE = "pass"
_ONE_FILE = f"""
import os
with open("file.bin", "wb") as file:
    file.write(os.urandom({MIB}))
"""


class _WatchedEngine(DockerEngine):
    """Notes when each kind of frame arrived last."""

    def __init__(self, subject: Subject) -> None:
        super().__init__(image=subject.image, runtime=subject.runtime)
        self.arrived: dict[str, float] = {}

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> DockerChannel:
        """See Engine.start."""
        channel = super().start(spec, cancel, deadline)
        reader, receive = FrameReader(), channel.recv

        def receive_and_note(timeout: float) -> bytes | None:
            data = receive(timeout)
            for kind, _ in reader.feed(data or b""):
                self.arrived[kind] = time.monotonic()
            return data

        channel.recv = receive_and_note
        return channel


def measure_collection(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Without any file and with one of 1 MiB, in turn."""
    engine = _WatchedEngine(subject)
    runner = subject.runner(engine)
    times: dict[str, list[float]] = {_NO_FILE: [], _ONE_FILE: []}
    try:
        for _ in range(rounds):
            for program, taken in times.items():
                result = run_python(runner, program)
                expected = [MIB] if program == _ONE_FILE else []
                if [file.size for file in result.files] != expected:
                    raise BenchmarkError("The file was not brought back whole.")
                arrived = engine.arrived
                taken.append((arrived[_DONE] - arrived[_STEP_ENDED]) * 1000)
    finally:
        runner.close()
    name = "from the program's end to the result"
    yield Measurement(f"{name}, no file", "ms", tuple(times[_NO_FILE]))
    yield Measurement(f"{name}, one file of 1 MiB", "ms", tuple(times[_ONE_FILE]))
