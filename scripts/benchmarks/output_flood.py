"""A program that prints 1 GB: what it costs the process that runs it."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from sandbox_core.limits import Limits
from sandbox_core.models import RunEvent
from scripts.benchmarks.measurement import Measurement, at_most
from scripts.benchmarks.process_memory import peak_bytes, resident_bytes
from scripts.benchmarks.subject import BenchmarkError, Subject, run_python

__all__ = ["measure_output_flood"]

_BYTES = 10**9
_FLOOD = f"""
import os
line = b"x" * 99 + b"\\n"
block = line * 10_000
for _ in range({_BYTES} // len(block)):
    os.write(1, block)
"""
_MOST_MB = 50


def measure_output_flood(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Each round in a fresh process, whose memory nothing else has grown before."""
    context = multiprocessing.get_context("spawn")
    growths, seconds = [], []
    for _ in range(max(1, rounds // 5)):
        with ProcessPoolExecutor(1, context) as process:
            growth, took = process.submit(_flood, subject).result()
        growths.append(growth)
        seconds.append(took)
    name = "memory of the host process while a program prints 1 GB"
    yield Measurement(
        "flood_memory_mb", name, "MB", tuple(growths), (at_most(_MOST_MB),)
    )
    yield Measurement("flood_seconds", "time of that run", "s", tuple(seconds))


def _flood(subject: Subject) -> tuple[float, float]:
    """(growth of this process's memory in MB, seconds)."""
    runner = subject.runner()
    limits = Limits(output_mib=1024, seconds=600)
    try:
        run_python(runner, "print(1)")  # loads what every run needs
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = resident_bytes()
        result = run_python(runner, _FLOOD, limits, _watch)
        growth = (peak_bytes() - before) / 1e6
    finally:
        runner.close()
    output = result.stdout
    total = len(output.head) + len(output.tail) + output.omitted
    if total != _BYTES:
        raise BenchmarkError(f"Of {_BYTES} bytes {total} arrived.")
    return growth, result.total_seconds


def _watch(event: RunEvent) -> None:
    """A watcher, as every run of the plugins may have."""
