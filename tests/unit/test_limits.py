"""Limits: defaults, ranges, lowering."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.errors import InvalidRequest
from sandbox_core.limits import LimitRecord, Limits, limit_records

EACH = pytest.mark.parametrize(
    "record", limit_records(), ids=lambda record: record.name
)


def is_whole(record: LimitRecord) -> bool:
    return record.name not in ("seconds", "compile_seconds", "cpus")


def test_the_defaults() -> None:
    limits = Limits()
    assert (limits.seconds, limits.memory_mib, limits.cpus) == (30, 512, 1)
    assert (limits.processes, limits.open_files) == (128, 1024)
    assert limits.tmpfs_mib == 256
    assert (limits.kept_output_kib, limits.output_mib) == (256, 64)
    assert repr(limits) == "Limits()"


@EACH
def test_records_tell_what_holds(record: LimitRecord) -> None:
    assert getattr(Limits(), record.name) == record.default
    assert record.low <= record.default <= record.high
    assert record.text
    for value in (record.low, record.high):
        limits = replace(Limits(), **{record.name: value})
        assert getattr(limits, record.name) == value


@EACH
@pytest.mark.parametrize("offset", [-1, 1])
def test_out_of_range_is_refused(record: LimitRecord, offset: int) -> None:
    value = (record.low if offset < 0 else record.high) + offset
    with pytest.raises(InvalidRequest, match=f"limit {record.name} must be") as caught:
        Limits(**{record.name: value})
    assert f"from {record.low:g} to {record.high:g}" in str(caught.value)


@EACH
@pytest.mark.parametrize("value", ["5", None, True, math.nan, math.inf, [1]])
def test_wrong_kinds_are_refused(record: LimitRecord, value: object) -> None:
    with pytest.raises(InvalidRequest, match=record.name):
        Limits(**{record.name: value})


@EACH
def test_fractions_only_where_they_make_sense(record: LimitRecord) -> None:
    if is_whole(record):
        with pytest.raises(InvalidRequest, match="whole number"):
            Limits(**{record.name: record.default + 0.5})
    else:
        Limits(**{record.name: record.default + 0.5})


@EACH
@given(data=st.data())
def test_lowering_never_raises_a_limit(
    record: LimitRecord, data: st.DataObject
) -> None:
    numbers = st.integers(int(record.low) + 1, int(record.high))
    mine, wanted = data.draw(numbers), data.draw(numbers)
    limits = Limits(**{record.name: mine})
    lowered = limits.lowered(**{record.name: wanted})
    assert getattr(lowered, record.name) == min(mine, wanted)
    assert replace(lowered, **{record.name: mine}) == limits


def test_only_what_changed_is_shown() -> None:
    assert repr(Limits(seconds=5, files=0)) == "Limits(seconds=5, files=0)"
