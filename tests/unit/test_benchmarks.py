"""How measurements are told: medians, spreads and bounds."""

import pytest

from scripts.benchmarks.measurement import (
    Measurement,
    at_least,
    at_most,
    ratio_of,
    table_of,
)

COLD = Measurement("cold_ms", "cold run", "ms", (480.0, 510.0, 2000.0))
RATIO = Measurement("ratio", "ratio", "", (1.25,), (at_most(1.3),))
MEMORY = Measurement("memory_mb", "memory", "MB", (60.0,), (at_most(50),))


def test_a_slow_run_does_not_move_the_median():
    assert COLD.median == 510
    assert COLD.spread == "480 to 2 000"
    assert COLD.bound == ""
    assert COLD.holds


def test_a_bound_is_kept_or_missed():
    assert RATIO.holds
    assert RATIO.bound == "≤ 1.3: kept"
    assert not MEMORY.holds
    assert MEMORY.bound == "≤ 50 MB: MISSED"


def test_lines_of_a_terminal():
    assert " ".join(COLD.line().split()) == "cold run 510 ms [480 to 2 000]"
    assert " ".join(RATIO.line().split()) == "ratio 1.25 ≤ 1.3: kept"


def test_a_table_has_one_row_each():
    head, rule, *rows = table_of([COLD, RATIO]).splitlines()
    assert head.count("|") == rule.count("|") == 6
    assert rows == [
        "| cold run | 510 ms | 480 to 2 000 | 3 |  |",
        "| ratio | 1.25 |  | 1 | ≤ 1.3: kept |",
    ]


def test_records_of_a_file():
    plain = RATIO.to_plain()
    assert plain["values"] == (1.25,)
    assert plain["median"] == 1.25
    assert plain["holds"]


def test_lower_bounds_and_bounds_of_the_95th_percentile():
    values = tuple(float(number) for number in range(1, 22))
    bounds = (at_least(11), at_most(19, "p95"))
    spread = Measurement("spread_ms", "spread", "ms", values, bounds)
    assert spread.median == 11
    assert spread.p95 == 20
    assert spread.bound == "≥ 11 ms: kept; p95 ≤ 19 ms: MISSED (20)"
    assert not spread.holds


def test_figures_have_names():
    assert RATIO.figures == {"ratio": 1.25}
    figures = COLD.figures
    assert list(figures) == ["cold_ms_p50", "cold_ms_p95", "cold_ms_p99"]
    assert figures["cold_ms_p50"] == 510
    assert figures["cold_ms_p95"] == pytest.approx(1851)


def test_a_ratio_is_that_of_the_medians():
    ratio = ratio_of("twice", "memory / cold", COLD, MEMORY, at_least(9))
    assert ratio.values == (8.5,)
    assert ratio.bound == "≥ 9: MISSED"
