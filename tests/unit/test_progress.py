"""The grey line above an answer."""

import asyncio
import time

import pytest

from owui_plugin import progress as progress_module
from owui_plugin.output_items import MARK, unfinished_mark
from owui_plugin.progress import Progress, ended_status
from sandbox_core.leases import current_owner
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome


async def nothing(status):
    """Shows nothing."""


def told(*states, pause=0.02, quiet=0.0, monkeypatch):
    """The statuses that are shown when a run goes through these states, ``pause`` seconds
    each."""
    shown = []
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", quiet)

    async def show(status):
        shown.append(status)

    async def tell_all():
        progress = Progress("Python", "r1", 30, show)
        for state in states:
            getattr(progress, state)()
            await asyncio.sleep(pause)
        await progress.end()

    asyncio.run(tell_all())
    return shown


def test_what_is_under_way_carries_a_mark_of_this_process(monkeypatch):
    waiting, running = told("waiting", "running", monkeypatch=monkeypatch)
    assert waiting["description"] == "Waiting for a free sandbox…"
    assert running["description"] == "Running Python…"
    for status in (waiting, running):
        assert status["done"] is False
        mark = unfinished_mark([status])
        assert mark["run"] == "r1"
        assert mark["owner"] == current_owner()
    until = running[MARK]["expires"] - time.time()
    assert 30 + 60 < until < 30 + 300
    assert waiting[MARK]["expires"] > running[MARK]["expires"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (RunResult("r1", Outcome.OK, seconds=0.26), "Ran Python · 0.3 s"),
        (RunResult("r1", Outcome.FAILED, "It failed."), "It failed."),
        (
            RunResult(
                "r1", Outcome.SANDBOX_ERROR, "Docker is down. Start it. Then try."
            ),
            "Docker is down.",
        ),
        (
            RunResult("r1", Outcome.TIMEOUT, "Stopped after 1.5 s."),
            "Stopped after 1.5 s.",
        ),
    ],
)
def test_the_end_is_one_short_sentence(result, text):
    async def end():
        progress = Progress("Python", "r1", 30, nothing)
        await progress.end()
        return progress.ended(result)

    status = asyncio.run(end())
    assert status == ended_status(text)
    assert status["done"] is True
    assert unfinished_mark([status]) is None


def test_a_run_that_is_over_at_once_has_nothing_under_way(monkeypatch):
    states = ("waiting", "running")
    assert told(*states, quiet=5.0, monkeypatch=monkeypatch) == []


def test_of_two_changes_at_once_the_last_is_told(monkeypatch):
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)

    async def work():
        seen = []

        async def show(status):
            seen.append(status["description"])

        progress = Progress("Python", "r1", 30, show)
        progress.waiting()
        progress.running()
        await asyncio.sleep(0.05)
        await progress.end()
        return seen

    assert asyncio.run(work()) == ["Running Python…"]


def test_the_end_waits_for_what_is_being_told(monkeypatch):
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)

    async def work():
        order = []

        async def show(status):
            await asyncio.sleep(0.1)
            order.append("told")

        progress = Progress("Python", "r1", 30, show)
        progress.running()
        await asyncio.sleep(0.05)
        await progress.end()
        order.append("ended")
        return order

    assert asyncio.run(work()) == ["told", "ended"]


def test_a_browser_that_cannot_be_told_is_no_failure(monkeypatch):
    monkeypatch.setattr(progress_module, "_QUIET_SECONDS", 0.0)

    async def broken(status):
        raise ConnectionError

    async def work():
        progress = Progress("Python", "r1", 30, broken)
        progress.running()
        await asyncio.sleep(0.02)
        await progress.end()

    asyncio.run(work())
