"""How much a person may keep: the arithmetic, and the lock around it."""

import asyncio
import multiprocessing
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.quota import (
    Quota,
    StoredFile,
    Usage,
    oldest_to_delete,
    refusals,
    storage_lock,
    usage_of,
)

MIB = 1 << 20
QUOTAS = st.builds(Quota, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))


@given(
    st.lists(st.integers(1, 3 * MIB), max_size=12),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9 * MIB)),
    QUOTAS,
)
def test_nothing_is_kept_beyond_the_quota(
    sizes: list[int], usage: Usage, quota: Quota
) -> None:
    answers = refusals(sizes, usage, quota)
    kept = [size for size, reason in zip(sizes, answers, strict=True) if not reason]
    assert sum(kept) <= quota.run_mb * MIB
    assert not kept or usage.files + len(kept) <= quota.user_files
    assert not kept or usage.bytes + sum(kept) <= quota.user_mb * MIB
    for number, (size, reason) in enumerate(zip(sizes, answers, strict=True)):
        before = [s for s, r in zip(sizes[:number], answers, strict=False) if not r]
        fits = (
            sum(before) + size <= quota.run_mb * MIB
            and usage.files + len(before) < quota.user_files
            and usage.bytes + sum(before) + size <= quota.user_mb * MIB
        )
        assert fits == (not reason)


def test_a_refusal_tells_the_numbers_and_what_to_do() -> None:
    full = Usage(10, 256 * MIB)
    assert "256.0 of 256 MB" in refusals([MIB], full, Quota(128, 1000, 256))[0]
    assert "10 of 10 files" in refusals([1], full, Quota(128, 10, 1024))[0]
    assert "Manage Files" in refusals([1], full, Quota(128, 10, 1024))[0]
    assert "1 MB in all" in refusals([2 * MIB], Usage(0, 0), Quota(1, 10, 1024))[0]


STORED = st.lists(
    st.builds(
        StoredFile,
        st.uuids().map(str),
        st.just("a"),
        st.integers(0, 3 * MIB),
        st.floats(0, 9),
        st.just(""),
    ),
    max_size=12,
)


@given(st.lists(st.integers(1, 3 * MIB), max_size=12), STORED, QUOTAS)
def test_only_the_oldest_go_and_only_as_many_as_have_to(
    sizes: list[int], stored: list[StoredFile], quota: Quota
) -> None:
    gone = oldest_to_delete(sizes, stored, quota)
    left = [file for file in stored if file not in gone]
    assert all(old.at <= new.at for old in gone for new in left)
    possible = kept_of(sizes, Usage(0, 0), quota)
    assert kept_of(sizes, usage_of(left), quota) == possible
    if gone:
        assert True in possible  # never for nothing
        assert kept_of(sizes, usage_of([*left, gone[-1]]), quota) != possible


def kept_of(sizes: list[int], usage: Usage, quota: Quota) -> list[bool]:
    return [not reason for reason in refusals(sizes, usage, quota)]


def _take_turns(folder: str, log: str) -> None:
    async def take() -> None:
        async with storage_lock(Path(folder), "someone"):
            with Path(log).open("a") as lines:
                lines.write("in\n")
                lines.flush()
                await asyncio.sleep(0.2)
                lines.write("out\n")

    asyncio.run(take())


def test_two_workers_take_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_take_turns, args=(str(tmp_path), str(log)))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert log.read_text().split() == ["in", "out"] * 3


def test_two_runs_of_one_worker_take_turns_and_others_go_on(tmp_path: Path) -> None:
    async def hold(user: str, seconds: float) -> float:
        async with storage_lock(tmp_path, user):
            await asyncio.sleep(seconds)
            return time.monotonic()

    async def both() -> None:
        first, second, other = await asyncio.gather(
            hold("a", 0.3), hold("a", 0.0), hold("b", 0.0)
        )
        assert second >= first
        assert other < first

    asyncio.run(both())
