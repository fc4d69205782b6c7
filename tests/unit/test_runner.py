"""The runner's own decisions, against a guest that plays a script."""

import threading
import time

import pytest

from sandbox_core.engines.base import CancelToken, Ended
from sandbox_core.errors import (
    EngineUnavailable,
    ImageMissing,
    InvalidRequest,
    RuntimeMissing,
    StartFailed,
)
from sandbox_core.limits import Limits
from sandbox_core.models import RunEvent, RunRequest, Step
from sandbox_core.outcome import Outcome
from sandbox_core.protocol import encode_frame
from sandbox_core.runner import Budgets, LocalRunner
from tests.fake_engine import (
    SILENCE,
    FakeEngine,
    done,
    header,
    hello,
    killed_step,
    started,
    step_end,
)

QUICK = Budgets(start=0.3, transfer=0.2, overtime=0.2, collection=0.2, farewell=0.2)
GOOD = (hello(), started(), encode_frame("o", b"1\n"), step_end(), done())
OOM = Ended(exit_code=137, oom=True)


def run(engine, on_event=None, cancel=None, steps=1, seconds=0.2):
    runner = LocalRunner(engine, "image", "runsc", QUICK)
    request = RunRequest(
        steps=(Step("python", "print(1)"),) * steps, limits=Limits(seconds=seconds)
    )
    try:
        return runner.run(request, on_event, cancel)
    finally:
        runner.close()


def test_a_good_run():
    engine = FakeEngine(*GOOD)
    result = run(engine)
    assert (result.outcome, str(result.stdout), result.exit_code) == (
        Outcome.OK,
        "1\n",
        0,
    )
    assert result.evidence["engine"] == "fake"
    assert result.total_seconds >= 0
    assert engine.channel.closed


def test_the_program_is_sent_only_to_gvisor():
    engine = FakeEngine(hello(gvisor=False), SILENCE)
    result = run(engine)
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "is not gVisor, so nothing was run" in result.message
    assert b"print(1)" not in engine.channel.sent
    assert engine.channel.closed


def test_nothing_is_sent_before_the_hello():
    engine = FakeEngine(SILENCE)
    result = run(engine)
    assert "did not answer in time" in result.message
    assert b"print(1)" not in engine.channel.sent
    assert engine.channel.closed


@pytest.mark.parametrize(
    "error",
    [
        EngineUnavailable("The engine is down."),
        RuntimeMissing("No gVisor."),
        ImageMissing("No image."),
        StartFailed("Refused."),
    ],
)
def test_an_engine_that_gives_no_sandbox_is_an_outcome(error):
    result = run(FakeEngine(start_error=error))
    assert (result.outcome, result.message) == (Outcome.SANDBOX_ERROR, str(error))
    assert error.run_id == result.run_id


@pytest.mark.parametrize(
    "script",
    [
        (b"\x00garbage that is no frame",),
        (hello(), b"?\x00\x00\x00\x01x"),
        (hello(), started(), started()),
        (hello(), done()),
        (hello(), started(), encode_frame("o", b"x")[:4] + b"\xff"),
        (hello(), header("!", reason="no space left")),
        (hello(), started()),
        (hello(),),
        (),
    ],
)
def test_a_breach_or_a_sudden_end_is_a_sandbox_error(script):
    engine = FakeEngine(*script)
    result = run(engine)
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert result.message.endswith(
        ("Try again; if it stays, tell your administrator.", ".")
    )
    assert engine.channel.closed


def test_output_before_a_breach_is_kept():
    engine = FakeEngine(hello(), started(), encode_frame("o", b"kept\n"), b"?????")
    result = run(engine)
    assert (result.outcome, str(result.stdout)) == (Outcome.SANDBOX_ERROR, "kept\n")


def test_the_host_has_the_last_word_on_time():
    engine = FakeEngine(hello(), started(), encode_frame("o", b"tick\n"), SILENCE)
    began = time.monotonic()
    result = run(engine)
    assert (result.outcome, str(result.stdout)) == (Outcome.TIMEOUT, "tick\n")
    assert 0.3 < time.monotonic() - began < 3
    assert engine.channel.killed


def test_a_guest_that_keeps_talking_is_late_all_the_same():
    flood = [encode_frame("o", b"x")] * 10
    script = [entry for chunk in flood for entry in (chunk, 0.1)]
    result = run(FakeEngine(hello(), started(), *script, SILENCE))
    assert result.outcome is Outcome.TIMEOUT


def test_a_guest_that_never_starts_the_program():
    result = run(FakeEngine(hello(), SILENCE))
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "did not answer in time" in result.message


@pytest.mark.parametrize(
    ("script", "ended", "outcome"),
    [
        ((hello(), started()), OOM, Outcome.MEMORY_LIMIT),
        ((hello(), started()), Ended(137, None), Outcome.SANDBOX_ERROR),
        ((hello(), started()), Ended(2, False), Outcome.SANDBOX_ERROR),
        ((hello(), started(), SILENCE), OOM, Outcome.MEMORY_LIMIT),
        ((hello(), started(), killed_step(), done()), OOM, Outcome.MEMORY_LIMIT),
        ((hello(), started(), killed_step(), done()), Ended(0, False), Outcome.FAILED),
        (
            (hello(), started(), killed_step(), done()),
            Ended(None, None),
            Outcome.FAILED,
        ),
        ((hello(), started(), step_end(0, 1), done()), OOM, Outcome.MEMORY_LIMIT),
        ((hello(), started(), step_end(0, 1), done()), Ended(0, False), Outcome.FAILED),
        ((hello(), started(), step_end(0, 2), done()), OOM, Outcome.FAILED),
        ((hello(), started(), step_end(0, 0), done()), OOM, Outcome.OK),
        (
            (hello(), started(), killed_step(), done(memory_killed=True)),
            Ended(0, False),
            Outcome.MEMORY_LIMIT,
        ),
    ],
)
def test_out_of_memory_is_told_from_other_ends(script, ended, outcome):
    assert run(FakeEngine(*script, ended=ended)).outcome is outcome


def test_a_program_that_fails_does_not_wait_for_its_sandbox_to_go():
    engine = FakeEngine(hello(), started(), step_end(0, 1), done())
    engine.ended_while_open = None

    def note_state(deadline):
        engine.ended_while_open = not engine.channel.killed
        return Ended(0, False)

    start = engine.start

    def start_and_watch(*args):
        channel = start(*args)
        channel.ended = note_state
        return channel

    engine.start = start_and_watch
    assert run(engine).outcome is Outcome.FAILED
    assert engine.ended_while_open is True


def test_steps_share_one_time_limit_and_end_at_the_first_failure():
    engine = FakeEngine(
        hello(), started(0), step_end(0), started(1), step_end(1, 7), done(), SILENCE
    )
    result = run(engine, steps=3)
    assert (result.outcome, result.exit_code, result.failed_step) == (
        Outcome.FAILED,
        7,
        1,
    )


# --- cancelling ----------------------------------------------------------------------------


def cancelled_after(seconds):
    cancel = CancelToken()
    threading.Timer(seconds, cancel.cancel).start()
    return cancel


def test_cancel_asks_the_guest_and_keeps_what_it_hands_over():
    engine = FakeEngine(
        hello(),
        started(),
        encode_frame("o", b"so far\n"),
        0.3,
        killed_step(),
        done(cancelled=True),
    )
    result = run(engine, cancel=cancelled_after(0.1), seconds=5)
    assert (result.outcome, str(result.stdout)) == (Outcome.CANCELLED, "so far\n")
    assert engine.channel.sent.endswith(encode_frame("C"))


def test_cancel_does_not_wait_for_a_deaf_guest():
    engine = FakeEngine(hello(), started(), encode_frame("o", b"so far\n"), SILENCE)
    began = time.monotonic()
    result = run(engine, cancel=cancelled_after(0.1), seconds=30)
    assert (result.outcome, str(result.stdout)) == (Outcome.CANCELLED, "so far\n")
    assert result.message == "The run was stopped on request."
    assert time.monotonic() - began < 3
    assert engine.channel.closed


@pytest.mark.parametrize("script", [(SILENCE,), (hello(), SILENCE)])
def test_cancel_before_the_program_runs(script):
    result = run(FakeEngine(*script), cancel=cancelled_after(0.05))
    assert result.outcome is Outcome.CANCELLED


def test_cancel_during_the_upload_sends_no_further_file():
    cancel = CancelToken()
    engine = FakeEngine(lambda: cancel.cancel() or hello(), SILENCE)
    result = run(engine, cancel=cancel)
    assert result.outcome is Outcome.CANCELLED
    assert b"print(1)" not in engine.channel.sent


# --- the rest ------------------------------------------------------------------------------


def test_events_tell_the_start_and_the_text():
    seen = []
    run(FakeEngine(*GOOD), on_event=seen.append)
    assert seen == [RunEvent("started", 0), RunEvent("text", 0, "stdout", "1\n")]


def test_a_broken_watcher_does_not_break_the_run():
    def watch(event):
        raise RuntimeError("no")

    assert run(FakeEngine(*GOOD), on_event=watch).outcome is Outcome.OK


def test_a_runner_closed_during_a_run_removes_its_sandbox_all_the_same():
    engine = FakeEngine(hello(), started(), lambda: runner.close(), *GOOD[2:])
    runner = LocalRunner(engine, "image", "runsc", QUICK)
    result = runner.run(RunRequest((Step("python", "print(1)"),)))
    assert (result.outcome, str(result.stdout)) == (Outcome.OK, "1\n")
    assert engine.channel.closed


def test_a_request_that_breaks_a_rule_starts_nothing():
    engine = FakeEngine(*GOOD)
    runner = LocalRunner(engine, "image")
    with pytest.raises(InvalidRequest):
        runner.run(RunRequest(steps=(Step("cobol", "1"),)))
    with pytest.raises(InvalidRequest):
        runner.run(RunRequest(steps=(Step("python", "1"),), stdin=b"x" * (17 << 20)))
    runner.close()
    assert engine.channels == []


def test_the_sandbox_has_a_lease_that_outlasts_the_run():
    specs = []

    class Watching(FakeEngine):
        def start(self, spec, cancel, deadline):
            specs.append(spec)
            return super().start(spec, cancel, deadline)

    run(Watching(*GOOD), seconds=30)
    (spec,) = specs
    assert spec.expires_at > time.time() + 30
    assert spec.owner.count("/") == 2
    assert spec.runtime == "runsc"


def test_the_fake_engine_exists_in_tests_only(monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(RuntimeError, match="for tests only"):
        FakeEngine()
