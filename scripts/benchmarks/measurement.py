"""One thing that was measured, and how it is told."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

__all__ = ["Measurement", "table_of"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """All values of one quantity. ``at_most`` is the bound that its median must keep."""

    name: str
    unit: str
    values: tuple[float, ...]
    at_most: float | None = None

    @property
    def median(self) -> float:
        """The middle value: a few slow runs of a shared machine do not move it."""
        return median(self.values)

    @property
    def holds(self) -> bool:
        """Whether the median keeps the bound, if there is one."""
        return self.at_most is None or self.median <= self.at_most

    @property
    def spread(self) -> str:
        """Lowest and highest value in words; empty for a single one."""
        if len(self.values) == 1:
            return ""
        return f"{_shown(min(self.values))} to {_shown(max(self.values))}"

    @property
    def bound(self) -> str:
        """The bound in words, and whether it is kept; empty when there is none."""
        if self.at_most is None:
            return ""
        verdict = "kept" if self.holds else "MISSED"
        return f"≤ {self.at_most:g} {self.unit}".rstrip() + f": {verdict}"

    def line(self) -> str:
        """One line for a terminal."""
        shown = f"{self.name:<58} {_shown(self.median):>8} {self.unit:<5}"
        more = (f"[{self.spread}]" if self.spread else "", self.bound)
        return " ".join((shown, *filter(None, more))).rstrip()

    def to_plain(self) -> dict[str, Any]:
        """The record of a JSON file."""
        return {**asdict(self), "median": self.median, "holds": self.holds}


def table_of(measurements: Iterable[Measurement]) -> str:
    """All of them as a Markdown table."""
    rows = [("Measured", "Median", "Lowest to highest", "Runs", "Bound"), ("---",) * 5]
    for one in measurements:
        middle = f"{_shown(one.median)} {one.unit}".rstrip()
        rows.append((one.name, middle, one.spread, str(len(one.values)), one.bound))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
