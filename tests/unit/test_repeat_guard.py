"""The guard against the same failing call again and again."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.repeat_guard import RepeatGuard, call_digest
from sandbox_core.outcome import Outcome

CALL = call_digest("python", "1 / 0", "")
OTHER = call_digest("python", "1 / 1", "")


def attempt(guard: RepeatGuard, call: str, outcome: Outcome, user: str = "u") -> bool:
    """One call as the tool makes it; whether it was run."""
    if guard.refuses(user, "chat", call):
        return False
    guard.ended(user, "chat", call, outcome)
    return True


def test_the_third_is_refused() -> None:
    guard = RepeatGuard()
    ran = [attempt(guard, CALL, Outcome.FAILED) for _ in range(5)]
    assert ran == [True, True, False, False, False]


@pytest.mark.parametrize(
    "outcome", [o for o in Outcome if o not in ("ok", "cancelled")]
)
def test_which_ends_count(outcome: Outcome) -> None:
    guard = RepeatGuard()
    attempt(guard, CALL, outcome)
    attempt(guard, CALL, outcome)
    refused = not attempt(guard, CALL, outcome)
    assert refused is (outcome is not Outcome.SANDBOX_ERROR)


@pytest.mark.parametrize("between", [(OTHER, Outcome.FAILED), (OTHER, Outcome.OK)])
def test_a_different_call_resets(between: tuple[str, Outcome]) -> None:
    guard = RepeatGuard()
    for call, outcome in [(CALL, Outcome.FAILED)] * 2 + [between]:
        assert attempt(guard, call, outcome)
    assert attempt(guard, CALL, Outcome.FAILED)
    assert attempt(guard, CALL, Outcome.FAILED)
    assert not attempt(guard, CALL, Outcome.FAILED)


def test_success_resets() -> None:
    guard = RepeatGuard()
    for outcome in (Outcome.FAILED, Outcome.OK, Outcome.FAILED, Outcome.FAILED):
        assert attempt(guard, CALL, outcome)
    assert not attempt(guard, CALL, Outcome.FAILED)


@pytest.mark.parametrize("outcome", [Outcome.SANDBOX_ERROR, Outcome.CANCELLED])
def test_what_says_nothing_about_the_code_changes_nothing(outcome: Outcome) -> None:
    guard = RepeatGuard()
    for ended in (Outcome.FAILED, outcome, Outcome.FAILED):
        assert attempt(guard, CALL, ended)
    assert not attempt(guard, CALL, Outcome.FAILED)


def test_people_and_chats_are_apart() -> None:
    guard = RepeatGuard()
    for _ in range(2):
        attempt(guard, CALL, Outcome.FAILED)
    assert attempt(guard, CALL, Outcome.FAILED, user="another")
    assert not guard.refuses("u", "another chat", CALL)
    assert guard.refuses("u", "chat", CALL)


def test_only_the_chats_used_last_are_remembered() -> None:
    guard = RepeatGuard()
    for _ in range(2):
        guard.ended("u", "old", CALL, Outcome.FAILED)
        guard.ended("u", "used", CALL, Outcome.FAILED)
    for number in range(999):
        guard.ended("u", str(number), CALL, Outcome.FAILED)
        guard.ended("u", "used", CALL, Outcome.FAILED)
    assert guard.refuses("u", "used", CALL)
    assert not guard.refuses("u", "old", CALL)


def test_threads_do_not_lose_a_count() -> None:
    guard = RepeatGuard()
    chats = [str(number) for number in range(200)] * 2
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda chat: guard.ended("u", chat, CALL, Outcome.FAILED), chats))
    assert all(guard.refuses("u", chat, CALL) for chat in chats)


@given(st.tuples(*[st.text(max_size=4)] * 3), st.tuples(*[st.text(max_size=4)] * 3))
def test_digests_differ_as_calls_do(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (call_digest(*one) == call_digest(*other)) is (one == other)


def test_a_lone_surrogate_is_no_trouble() -> None:
    assert call_digest("python", "\ud800", "") != call_digest("python", "\ud801", "")
