"""The table of outcomes: what was seen, and what it means."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.limits import Limits
from sandbox_core.outcome import (
    Evidence,
    Outcome,
    classify,
    describe_outcome,
    signal_name,
)

OK = Evidence(done=True, exit_code=0)

TABLE = [
    # How it ends by itself.
    (Evidence(done=True, exit_code=0), "ok"),
    (Evidence(done=True, exit_code=3), "failed"),
    (Evidence(done=True, exit_code=1), "failed"),
    (Evidence(done=True, exit_code=137), "failed"),
    (Evidence(done=True, signal=11), "failed"),
    (Evidence(done=True, signal=9), "failed"),
    (Evidence(done=True), "failed"),
    (Evidence(), "sandbox_error"),
    (Evidence(exit_code=0), "sandbox_error"),
    (Evidence(error="The daemon is gone."), "sandbox_error"),
    (Evidence(error="The daemon is gone.", done=True, exit_code=0), "sandbox_error"),
    # The engine's out-of-memory flag is evidence and not a verdict.
    (Evidence(oom=True), "memory_limit"),
    (Evidence(oom=True, done=True, signal=9), "memory_limit"),
    (Evidence(oom=True, done=True, exit_code=1), "memory_limit"),
    (Evidence(oom=True, done=True, exit_code=0), "ok"),
    (Evidence(oom=True, done=True, exit_code=2), "failed"),
    (Evidence(oom=True, done=True, signal=11), "failed"),
    # Walls that ended it.
    (Evidence(memory_killed=True, done=True, signal=9), "memory_limit"),
    (Evidence(timed_out=True, done=True, signal=9), "timeout"),
    (Evidence(timed_out=True), "timeout"),
    (Evidence(output_capped=True, done=True, signal=9), "output_limit"),
    (Evidence(processes_killed=True, done=True, signal=9), "process_limit"),
    (Evidence(processes_full=True, done=True, exit_code=1), "process_limit"),
    (Evidence(disk_full=True, done=True, exit_code=1), "disk_limit"),
    (Evidence(disk_full=True), "disk_limit"),
    # A compiler has walls, too.
    (Evidence(compiling=True, done=True, exit_code=1), "compile_error"),
    (Evidence(compiling=True, done=True, signal=11), "compile_error"),
    (Evidence(compiling=True, timed_out=True, done=True, signal=9), "timeout"),
    (Evidence(compiling=True, memory_killed=True, done=True, signal=9), "memory_limit"),
    (Evidence(compiling=True, disk_full=True, done=True, exit_code=1), "disk_limit"),
    (Evidence(compiling=True), "sandbox_error"),
    (Evidence(missing="no Go", done=True, exit_code=127), "failed"),
    # Walls that it survived are notes.
    (Evidence(processes_full=True, done=True, exit_code=0), "ok"),
    (Evidence(disk_full=True, done=True, exit_code=0), "ok"),
    # Several at once: the first in the order of the enum.
    (Evidence(error="x", cancelled=True, memory_killed=True), "sandbox_error"),
    (Evidence(cancelled=True, memory_killed=True, timed_out=True), "cancelled"),
    (Evidence(cancelled=True), "cancelled"),
    (Evidence(memory_killed=True, timed_out=True), "memory_limit"),
    (Evidence(oom=True, timed_out=True), "memory_limit"),
    (Evidence(oom=True, timed_out=True, done=True, signal=15), "timeout"),
    (Evidence(timed_out=True, output_capped=True), "timeout"),
    (Evidence(output_capped=True, processes_killed=True), "output_limit"),
    (
        Evidence(processes_full=True, disk_full=True, done=True, exit_code=1),
        "process_limit",
    ),
]


@pytest.mark.parametrize(("seen", "outcome"), TABLE)
def test_classified(seen: Evidence, outcome: str) -> None:
    assert classify(seen) == outcome


EVIDENCE = st.builds(
    Evidence,
    error=st.sampled_from(["", "", "", "It broke."]),
    cancelled=st.booleans(),
    done=st.booleans(),
    exit_code=st.sampled_from([None, 0, 1, 2, 137]),
    signal=st.none(),
    oom=st.booleans(),
    memory_killed=st.booleans(),
    timed_out=st.booleans(),
    output_capped=st.booleans(),
    processes_killed=st.booleans(),
    processes_full=st.booleans(),
    disk_full=st.booleans(),
) | st.builds(
    Evidence, done=st.just(True), signal=st.integers(1, 64), oom=st.booleans()
)


@given(EVIDENCE)
def test_every_ending_is_told_in_one_sentence(seen: Evidence) -> None:
    outcome = classify(seen)
    sentence = describe_outcome(outcome, seen, Limits())
    assert (sentence == "") is (outcome is Outcome.OK)
    assert "\n" not in sentence
    assert "None" not in sentence
    assert outcome is Outcome.OK or sentence.endswith(".")


@given(EVIDENCE)
def test_ok_means_that_it_ended_well(seen: Evidence) -> None:
    if classify(seen) is Outcome.OK:
        assert seen.done
        assert seen.exit_code == 0
        assert not any((seen.cancelled, seen.timed_out, seen.memory_killed))


def test_the_order_of_the_enum_is_the_precedence() -> None:
    causes = {
        Outcome.SANDBOX_ERROR: {"error": "x"},
        Outcome.CANCELLED: {"cancelled": True},
        Outcome.MEMORY_LIMIT: {"memory_killed": True},
        Outcome.TIMEOUT: {"timed_out": True},
        Outcome.OUTPUT_LIMIT: {"output_capped": True},
        Outcome.PROCESS_LIMIT: {"processes_killed": True},
        Outcome.DISK_LIMIT: {"disk_full": True},
    }
    order = list(Outcome)
    for one, other in product(causes, causes):
        seen = Evidence(**{**causes[one], **causes[other]}, done=True, exit_code=1)
        assert classify(seen) is min(one, other, key=order.index)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Evidence(done=True, exit_code=3), "exit code 3"),
        (Evidence(done=True, signal=11), "killed by signal 11 (SIGSEGV)"),
        (Evidence(done=True), "The program failed."),
        (Evidence(memory_killed=True), "memory limit of 512 MB"),
        (Evidence(timed_out=True), "after 2.5 s, the time limit (timeout)"),
        (Evidence(output_capped=True), "output limit of 64 MB"),
        (Evidence(processes_killed=True), "process limit of 128"),
        (Evidence(disk_full=True), "disk limit is 128 MB"),
        (Evidence(error="No gVisor here."), "No gVisor here."),
        (Evidence(), "ended unexpectedly"),
        (Evidence(cancelled=True), "stopped on request"),
    ],
)
def test_sentences_name_the_limit(seen: Evidence, words: str) -> None:
    assert words in describe_outcome(classify(seen), seen, Limits(seconds=2.5))


def test_signal_names() -> None:
    assert signal_name(9) == "SIGKILL"
    assert signal_name(99) == "signal 99"
