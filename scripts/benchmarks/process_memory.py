"""The memory of a process on this host, as proc(5) tells it."""

from pathlib import Path

from scripts.benchmarks.subject import BenchmarkError

__all__ = ["peak_bytes", "resident_bytes", "shared_out_bytes"]


def resident_bytes(process: int | str = "self") -> int:
    """What it holds at this moment. Raises BenchmarkError when it has ended."""
    return _field(process, "status", "VmRSS")


def peak_bytes(process: int | str = "self") -> int:
    """The most that it has held since /proc/PID/clear_refs was told 5, or since it started.
    Raises BenchmarkError when it has ended."""
    return _field(process, "status", "VmHWM")


def shared_out_bytes(process: int | str) -> int:
    """What it holds for itself, and its share of what it has with others. Raises
    BenchmarkError when it has ended."""
    return _field(process, "smaps_rollup", "Pss")


def _field(process: int | str, file: str, name: str) -> int:
    try:
        lines = Path(f"/proc/{process}/{file}").read_text().splitlines()
    except OSError as error:
        raise BenchmarkError(f"Process {process} has ended.") from error
    for line in lines:
        found, _, value = line.partition(":")
        if found == name:
            return int(value.split()[0]) * 1024
    raise BenchmarkError(f"This kernel does not tell {name} of process {process}.")
