"""One thing that was measured, and how it is told."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any

__all__ = ["Bound", "Measurement", "at_least", "at_most", "ratio_of", "table_of"]


@dataclass(frozen=True, slots=True)
class Bound:
    """What a statistic (``p50`` or ``p95``) of a measurement must keep."""

    limit: float
    is_least: bool
    statistic: str

    def keeps(self, value: float) -> bool:
        """Whether this value of the statistic is within the bound."""
        return value >= self.limit if self.is_least else value <= self.limit


def at_most(limit: float, statistic: str = "p50") -> Bound:
    """An upper bound."""
    return Bound(limit, False, statistic)


def at_least(limit: float, statistic: str = "p50") -> Bound:
    """A lower bound."""
    return Bound(limit, True, statistic)


@dataclass(frozen=True, slots=True)
class Measurement:
    """All values of one quantity. ``key`` is its name in a JSON file, ``name`` the one for
    people; ``unit`` may be empty.
    """

    key: str
    name: str
    unit: str
    values: tuple[float, ...]
    bounds: tuple[Bound, ...] = ()

    @property
    def median(self) -> float:
        """The middle value: a few slow runs of a shared machine do not move it."""
        return median(self.values)

    @property
    def p95(self) -> float:
        """The value that 95 of 100 runs keep, interpolated between the nearest two."""
        return self._percentile(95)

    @property
    def holds(self) -> bool:
        """Whether all bounds are kept."""
        return all(bound.keeps(self._statistic(bound)) for bound in self.bounds)

    @property
    def figures(self) -> dict[str, float]:
        """The single numbers by name: ``KEY`` of one value, else ``KEY_p50``, ``KEY_p95`` and
        ``KEY_p99``."""
        if len(self.values) == 1:
            return {self.key: self.values[0]}
        p99 = self._percentile(99)
        return {
            f"{self.key}_p50": self.median,
            f"{self.key}_p95": self.p95,
            f"{self.key}_p99": p99,
        }

    @property
    def spread(self) -> str:
        """Lowest and highest value in words; empty for a single one."""
        if len(self.values) == 1:
            return ""
        return f"{_shown(min(self.values))} to {_shown(max(self.values))}"

    @property
    def bound(self) -> str:
        """The bounds in words, and whether they are kept; empty when there is none."""
        return "; ".join(self._bound_in_words(bound) for bound in self.bounds)

    def line(self) -> str:
        """One line for a terminal."""
        shown = f"{self.name:<62} {_shown(self.median):>8} {self.unit:<5}"
        more = (f"[{self.spread}]" if self.spread else "", self.bound)
        return " ".join((shown, *filter(None, more))).rstrip()

    def to_plain(self) -> dict[str, Any]:
        """The record of a JSON file."""
        return {**asdict(self), "median": self.median, "holds": self.holds}

    def _percentile(self, percent: int) -> float:
        if len(self.values) == 1:
            return self.values[0]
        return quantiles(self.values, n=100, method="inclusive")[percent - 1]

    def _statistic(self, bound: Bound) -> float:
        return self.p95 if bound.statistic == "p95" else self.median

    def _bound_in_words(self, bound: Bound) -> str:
        value = self._statistic(bound)
        sign = "≥" if bound.is_least else "≤"
        limit = f"{sign} {bound.limit:g} {self.unit}".rstrip()
        verdict = "kept" if bound.keeps(value) else "MISSED"
        if bound.statistic == "p50":
            return f"{limit}: {verdict}"
        return f"{bound.statistic} {limit}: {verdict} ({_shown(value)})"


def ratio_of(
    key: str, name: str, over: Measurement, under: Measurement, *bounds: Bound
) -> Measurement:
    """The ratio of two medians of one run."""
    return Measurement(key, name, "", (over.median / under.median,), bounds)


def table_of(measurements: Iterable[Measurement]) -> str:
    """All of them as a Markdown table."""
    rows = [("Measured", "Median", "Lowest to highest", "Runs", "Bound"), ("---",) * 5]
    for one in measurements:
        middle = f"{_shown(one.median)} {one.unit}".rstrip()
        rows.append((one.name, middle, one.spread, str(len(one.values)), one.bound))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}".replace(",", " ")
