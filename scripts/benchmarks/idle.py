"""What a warm sandbox costs while it waits: memory and processor time."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox_core.leases import current_owner
from scripts.benchmarks.contenders import wait_for_warm_sandbox
from scripts.benchmarks.measurement import Measurement, at_most
from scripts.benchmarks.process_memory import shared_out_bytes
from scripts.benchmarks.subject import BenchmarkError, Subject, docker

__all__ = ["measure_idle"]

_WATCHED_SECONDS = 10.0
# As the pool counts it (sandbox_core/pool.py).
_MOST_MB = 134


def measure_idle(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Of all processes on this host that belong to the one waiting container."""
    runner = subject.runner(is_warm=True)
    try:
        wait_for_warm_sandbox(runner)
        processes = _processes_of_container()
        memory = sum(shared_out_bytes(process.name) for process in processes) / 1e6
        before, begin = _processor_seconds(processes), time.monotonic()
        time.sleep(_WATCHED_SECONDS if rounds >= 10 else 3.0)
        used = _processor_seconds(processes) - before
        share = 100 * used / (time.monotonic() - begin)
    finally:
        runner.close()
    yield Measurement(
        "idle_sandbox_memory_mb",
        "memory of a warm sandbox that waits",
        "MB",
        (memory,),
        (at_most(_MOST_MB),),
    )
    yield Measurement(
        "idle_sandbox_cpu_percent", "its share of one processor", "%", (share,)
    )


def _processes_of_container() -> Sequence[Path]:
    listed = docker(
        "ps",
        "--no-trunc",
        "--quiet",
        f"--filter=label=run-code.owner={current_owner()}",
    )
    for container in listed.split():
        needle = container.encode()
        found = [
            path
            for path in Path("/proc").glob("[0-9]*")
            if needle in _command_line(path) and int(path.name) != os.getpid()
        ]
        if found:
            return found
    raise BenchmarkError("The sandbox's processes are not on this host.")


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def _processor_seconds(processes: Sequence[Path]) -> float:
    """Fields utime and stime of proc(5), which counts behind the name in parentheses."""
    ticks = 0
    for process in processes:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
