"""The limits of one run: a validated value, and one record per limit for docs and valves."""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, cast

from sandbox_core.errors import InvalidRequest

__all__ = ["MIB", "LimitRecord", "Limits", "limit_records"]

MIB = 1 << 20


def _limit(default: float, low: float, high: float, unit: str, text: str) -> Any:
    return field(
        default=default,
        metadata={"low": low, "high": high, "unit": unit, "text": text},
    )


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """What the docs and the valves say about one limit."""

    name: str
    default: float
    low: float
    high: float
    unit: str
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class Limits:
    """What one run may use. All values are checked at construction.

    ``memory_mib`` is for the program alone; the tmpfs folders have sizes of their own.
    Raises InvalidRequest, naming the limit and its range, when a value is out of range.
    """

    seconds: float = _limit(
        30, 0.1, 3600, "s", "wall-clock time of all steps of a run together"
    )
    memory_mib: int = _limit(512, 32, 65536, "MiB", "memory of the program")
    cpus: float = _limit(1, 0.1, 64, "CPUs", "processor time per second")
    processes: int = _limit(
        128, 8, 4096, "", "processes and threads of the program at one time"
    )
    open_files: int = _limit(1024, 32, 65536, "", "open files per process")
    work_mib: int = _limit(
        128, 1, 65536, "MiB", "work folder, `/mnt/data` (tmpfs, exec)"
    )
    tmp_mib: int = _limit(64, 1, 65536, "MiB", "`/tmp`, which holds `$HOME` (tmpfs)")
    shm_mib: int = _limit(64, 1, 65536, "MiB", "`/dev/shm` (tmpfs)")
    compile_seconds: float = _limit(
        60, 1, 3600, "s", "time of each compiler, apart from that of the programs"
    )
    kept_output_kib: int = _limit(
        256, 1, 4096, "KiB", "output kept from the start, and again from the end"
    )
    output_mib: int = _limit(
        64, 1, 1024, "MiB", "output after which the program is stopped"
    )
    files: int = _limit(100, 0, 10000, "", "files brought back from a run")
    file_mib: int = _limit(64, 1, 4096, "MiB", "size of one file brought back")

    def __post_init__(self) -> None:
        for record in limit_records():
            _check_limit(record, getattr(self, record.name))

    def __repr__(self) -> str:
        changed = (
            f"{record.name}={getattr(self, record.name)!r}"
            for record in limit_records()
            if getattr(self, record.name) != record.default
        )
        return f"Limits({', '.join(changed)})"

    @property
    def tmpfs_mib(self) -> int:
        """Size of all tmpfs folders together, in MiB."""
        return self.work_mib + self.tmp_mib + self.shm_mib

    def shape(self) -> Self:
        """These limits with all at their defaults that a container is not made for."""
        shaping = ("memory_mib", "cpus", "processes", "open_files")
        names = (*shaping, "work_mib", "tmp_mib", "shm_mib")
        return type(self)(**{name: getattr(self, name) for name in names})

    def lowered(self, **wanted: float) -> Self:
        """These limits with each wanted one that is lower; a higher one changes nothing."""
        lower = {
            name: min(getattr(self, name), value) for name, value in wanted.items()
        }
        return replace(self, **lower)


def limit_records() -> tuple[LimitRecord, ...]:
    """One record per limit, in the order in which people read them."""
    return _LIMIT_RECORDS


def _check_limit(record: LimitRecord, value: object) -> None:
    whole = isinstance(record.default, int) and record.unit not in ("s", "CPUs")
    number = (
        value
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else None
    )
    if whole and isinstance(number, float):
        number = None
    if number is None or not record.low <= number <= record.high:
        kind = "a whole number" if whole else "a number"
        unit = f" {record.unit}" if record.unit else ""
        raise InvalidRequest(
            f"The limit {record.name} must be {kind} from {record.low:g} to "
            f"{record.high:g}{unit}, not {value!r}."
        )


_LIMIT_RECORDS = tuple(
    LimitRecord(
        name=entry.name,
        default=cast(float, entry.default),
        low=entry.metadata["low"],
        high=entry.metadata["high"],
        unit=entry.metadata["unit"],
        text=entry.metadata["text"],
    )
    for entry in fields(Limits)
)
