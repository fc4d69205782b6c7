"""The grey line above an answer."""

import asyncio
import time

import pytest

from owui_plugin.output_items import MARK, unfinished_mark
from owui_plugin.progress import Progress, ended_status
from sandbox_core.leases import current_owner
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome


def told(*states):
    """The statuses that these methods of a Progress tell."""
    events = []

    async def tell_all():
        progress = Progress(emit, "Python", "r1", 30)
        for state in states:
            await getattr(progress, state)()

    async def emit(event):
        events.append(event)

    asyncio.run(tell_all())
    assert all(event["type"] == "status" for event in events)
    return [event["data"] for event in events]


def test_what_is_under_way_carries_a_mark_of_this_process():
    waiting, running = told("waiting", "running")
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
    status = Progress(None, "Python", "r1", 30).ended(result)
    assert status == ended_status(text)
    assert status["done"] is True
    assert unfinished_mark([status]) is None


def test_a_browser_that_cannot_be_told_is_no_failure():
    async def broken(event):
        raise ConnectionError

    asyncio.run(Progress(broken, "Python", "r1", 30).running())
    asyncio.run(Progress(None, "Python", "r1", 30).running())
