"""One runtime per process: who shares it, when it ends, and what a stop reaches."""

import asyncio
import sys
import threading
import time
from dataclasses import replace

import pytest

from owui_plugin import runtime
from owui_plugin.backend import Backend
from owui_plugin.runtime import claim, keep_task, process_board, start_run
from owui_plugin.settings import resolve_settings
from owui_plugin.valves import ActionValves
from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import EngineUnavailable
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.reaper import Reaper

SHARED = resolve_settings(ActionValves(max_concurrent_runs=2), None, {}).shared


class Engine:
    """Has no sandboxes."""

    def leftovers(self):
        return []


class Runner:
    """Runs programs that are names of what they do."""

    def __init__(self):
        self.closed = False
        self.runs = 0

    def run(self, request, on_event=None, cancel=None):
        self.runs += 1
        what = request.steps[0].code
        if what == "refused":
            raise EngineUnavailable("Docker is down.")
        if what == "broken":
            raise KeyError("a fault of ours")
        end = time.monotonic() + {"slow": 20, "deaf": 4.5}.get(what, 0)
        while time.monotonic() < end and (what == "deaf" or not cancel.is_set()):
            time.sleep(0.01)
        outcome = Outcome.CANCELLED if cancel.is_set() else Outcome.OK
        return RunResult(request.run_id, outcome)

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def runners(monkeypatch):
    """The runners of the runtimes, in the order in which they were made."""
    made = []

    def open_backend(shared):
        made.append(Runner())
        runs, per_user = shared.max_concurrent_runs, shared.max_concurrent_runs_per_user
        return Backend(made[-1], runs, per_user, Reaper(Engine()))

    monkeypatch.setattr(runtime, "open_backend", open_backend)
    monkeypatch.delitem(sys.modules, "run_code_runtime", raising=False)
    yield made
    for left in process_board().runtimes.values():
        left.retire()
    sys.modules.pop("run_code_runtime", None)


class Call:
    """A run, and what was told of it."""

    def __init__(self, what, shared=SHARED, user="u", plugin="tool"):
        self.told = []
        self.cancel = CancelToken()
        self.ticket = start_run(
            plugin,
            shared,
            RunRequest((Step("python", what),)),
            user,
            self.cancel,
            self.note("waits"),
            self.note("starts"),
        )

    def note(self, word):
        return lambda: self.told.append(word)


async def until(holds):
    for _ in range(500):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within 5 s")


def threads(name):
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def test_a_run():
    async def work():
        call = Call("quick")
        assert (await call.ticket.result()).outcome is Outcome.OK
        assert call.told == ["starts"]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("what", "words"),
    [("refused", "Docker is down."), ("broken", "Something went wrong in Run code")],
)
def test_whatever_goes_wrong_is_a_result(what, words):
    async def work():
        result = await Call(what).ticket.result()
        assert result.outcome is Outcome.SANDBOX_ERROR
        assert result.message.startswith(words)
        assert (await Call("quick").ticket.result()).outcome is Outcome.OK

    asyncio.run(work())


def test_equal_settings_share_a_runtime_and_others_do_not(runners):
    async def work():
        await Call("quick").ticket.result()
        await Call("quick", plugin="function").ticket.result()
        assert len(runners) == 1
        other = replace(SHARED, image="other")
        await Call("quick", other, plugin="function").ticket.result()
        assert len(runners) == 2
        assert len(process_board().runtimes) == 2, "the tool still uses the first"
        await Call("quick", other).ticket.result()
        assert len(process_board().runtimes) == 1
        await until(lambda: runners[0].closed)
        assert not runners[1].closed

    asyncio.run(work())


def test_a_retired_runtime_ends_after_what_runs_and_waits_in_it(runners):
    others = threads("run-code-reaper")  # of tests before this one

    async def work():
        old = [Call("slow", user="a"), Call("slow", user="b"), Call("quick", user="c")]
        await until(lambda: old[2].told == ["waits"])
        assert (
            await Call("quick", replace(SHARED, image="new")).ticket.result()
        ).run_id
        assert len(process_board().runtimes) == 1
        assert not runners[0].closed
        for call in old[:2]:
            call.cancel.cancel()
        assert (await old[2].ticket.result()).outcome is Outcome.OK
        assert old[2].told == ["waits", "starts"]
        await until(lambda: runners[0].closed)
        await until(lambda: threads("run-code-reaper") == others + 1)

    asyncio.run(work())


def test_stop_ends_a_run_and_gives_what_it_has(runners):
    async def work():
        call = Call("slow")
        await until(lambda: runners and runners[0].runs)
        assert (await call.ticket.stop()).outcome is Outcome.CANCELLED

    asyncio.run(work())


def test_stop_takes_a_waiting_run_out_of_the_queue():
    async def work():
        running = [Call("slow", user="a"), Call("slow", user="b")]
        waiting = Call("slow", user="c")
        await until(lambda: waiting.told == ["waits"])
        begin = time.monotonic()
        assert (await waiting.ticket.stop()).outcome is Outcome.CANCELLED
        assert time.monotonic() - begin < 2
        assert waiting.told == ["waits"]
        for call in running:
            await call.ticket.stop()

    asyncio.run(work())


def test_stop_does_not_wait_for_ever_and_the_place_stays_taken(runners):
    async def work():
        shared = replace(SHARED, max_concurrent_runs=1)
        call = Call("deaf", shared)
        await until(lambda: runners and runners[0].runs)
        begin = time.monotonic()
        assert (await call.ticket.stop()).outcome is Outcome.CANCELLED
        assert 2.5 < time.monotonic() - begin < 4.4
        after = Call("quick", shared)
        assert (await after.ticket.result()).outcome is Outcome.OK
        assert after.told == ["waits", "starts"]

    asyncio.run(work())


def test_a_cancelled_wait_leaves_the_run_alone(runners):
    async def work():
        call = Call("slow")
        waiting = asyncio.ensure_future(call.ticket.result())
        await until(lambda: runners and runners[0].runs)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not call.cancel.is_set()
        assert (await call.ticket.stop()).outcome is Outcome.CANCELLED

    asyncio.run(work())


def test_too_many_waiting_are_refused(runners):
    async def work():
        shared = replace(SHARED, max_waiting_runs=0)
        running = [Call("slow", shared, user=user) for user in "ab"]
        await until(lambda: runners and runners[0].runs == 2)
        result = await Call("quick", shared, user="c").ticket.result()
        assert result.outcome is Outcome.SANDBOX_ERROR
        assert "Too many runs are waiting" in result.message
        for call in running:
            await call.ticket.stop()

    asyncio.run(work())


def test_a_message_is_claimed_once():
    first, second = CancelToken(), CancelToken()
    mine, _ = claim(("u", "c", "m"), first)
    assert mine is not None
    none, entry = claim(("u", "c", "m"), second)
    assert none is None
    assert entry["since"] <= time.monotonic()
    entry["cancel"]()
    assert first.is_set()
    assert not second.is_set()
    assert claim(("u", "c", "other"), second)[0] is not None
    mine.release()
    again, _ = claim(("u", "c", "m"), second)
    assert again is not None
    mine.release()  # a second time: it is not the owner any more
    assert claim(("u", "c", "m"), first)[0] is None


def test_tasks_are_kept_until_they_end():
    async def work():
        task = keep_task(asyncio.sleep(0.01))
        assert task in process_board().tasks
        await task
        await asyncio.sleep(0)
        assert not process_board().tasks

    asyncio.run(work())
