"""How measurements are told: medians, spreads and bounds."""

from scripts.benchmarks.measurement import Measurement, table_of

COLD = Measurement("cold run", "ms", (480.0, 510.0, 2000.0))
RATIO = Measurement("ratio", "", (1.25,), at_most=1.3)
MEMORY = Measurement("memory", "MB", (60.0,), at_most=50)


def test_a_slow_run_does_not_move_the_median():
    assert COLD.median == 510
    assert COLD.spread == "480 to 2000"
    assert COLD.bound == ""
    assert COLD.holds


def test_a_bound_is_kept_or_missed():
    assert RATIO.holds
    assert RATIO.bound == "≤ 1.3: kept"
    assert not MEMORY.holds
    assert MEMORY.bound == "≤ 50 MB: MISSED"


def test_lines_of_a_terminal():
    assert " ".join(COLD.line().split()) == "cold run 510 ms [480 to 2000]"
    assert " ".join(RATIO.line().split()) == "ratio 1.25 ≤ 1.3: kept"


def test_a_table_has_one_row_each():
    head, rule, *rows = table_of([COLD, RATIO]).splitlines()
    assert head.count("|") == rule.count("|") == 6
    assert rows == [
        "| cold run | 510 ms | 480 to 2000 | 3 |  |",
        "| ratio | 1.25 |  | 1 | ≤ 1.3: kept |",
    ]


def test_records_of_a_file():
    plain = RATIO.to_plain()
    assert plain["values"] == (1.25,)
    assert plain["median"] == 1.25
    assert plain["holds"]
