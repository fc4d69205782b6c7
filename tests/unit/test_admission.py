"""Who runs, who waits, in which order, and who is turned away."""

import asyncio

import pytest

from sandbox_core.admission import Admission, Busy
from sandbox_core.engines.base import CancelToken


async def enter_soon(admission, user, entered, name):
    assert await admission.enter(user, CancelToken())
    entered.append(name)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


def test_caps_hold_and_one_users_queue_holds_up_nobody_else():
    async def scene():
        admission = Admission(total=4, per_user=2, most_waiting=50)
        entered = []
        tasks = [
            asyncio.create_task(enter_soon(admission, "anna", entered, f"a{number}"))
            for number in range(20)
        ]
        await settle()
        assert entered == ["a0", "a1"]
        assert admission.counts() == (2, 18)
        tasks.append(asyncio.create_task(enter_soon(admission, "bert", entered, "b0")))
        await settle()
        assert entered[-1] == "b0"
        for number in range(2, 20):
            admission.leave("anna")
            await settle()
            assert entered[-1] == f"a{number}"
        await asyncio.gather(*tasks)
        for user in ("anna", "anna", "bert"):
            admission.leave(user)
        assert admission.counts() == (0, 0)

    asyncio.run(scene())


def test_whoever_has_fewest_running_goes_first():
    async def scene():
        admission = Admission(total=2, per_user=2, most_waiting=50)
        entered = []
        await admission.enter("anna", CancelToken())
        await admission.enter("anna", CancelToken())
        tasks = [
            asyncio.create_task(enter_soon(admission, user, entered, name))
            for user, name in (("anna", "a"), ("anna", "a"), ("bert", "b"))
        ]
        await settle()
        admission.leave("anna")
        await settle()
        assert entered == ["b"]
        admission.leave("bert")
        admission.leave("anna")
        await asyncio.gather(*tasks)

    asyncio.run(scene())


def test_users_take_turns_whoever_came_first():
    async def scene():
        admission = Admission(total=1, per_user=1, most_waiting=50)
        entered = []
        await admission.enter("zoe", CancelToken())
        tasks = [
            asyncio.create_task(enter_soon(admission, name[0], entered, name))
            for name in ("a1", "a2", "a3", "b1", "b2", "c1")
        ]
        await settle()
        admission.leave("zoe")
        await settle()
        while len(entered) < len(tasks):
            admission.leave(entered[-1][0])
            await settle()
        await asyncio.gather(*tasks)
        assert entered == ["a1", "b1", "c1", "a2", "b2", "a3"]

    asyncio.run(scene())


def test_queues_are_bounded():
    async def scene():
        admission = Admission(1, 1, most_waiting=3, most_waiting_per_user=2)
        await admission.enter("anna", CancelToken())
        tasks = [
            asyncio.create_task(admission.enter("anna", CancelToken()))
            for _ in range(2)
        ]
        await settle()
        with pytest.raises(Busy, match="your runs are waiting"):
            await admission.enter("anna", CancelToken())
        tasks.append(asyncio.create_task(admission.enter("bert", CancelToken())))
        await settle()
        with pytest.raises(Busy, match="Too many runs"):
            await admission.enter("carl", CancelToken())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert admission.counts() == (1, 0)

    asyncio.run(scene())


def test_place_granted_to_someone_who_left_goes_to_the_next():
    async def scene():
        admission = Admission(1, 1, most_waiting=3)
        await admission.enter("anna", CancelToken())
        gone = asyncio.create_task(admission.enter("bert", CancelToken()))
        next_one = asyncio.create_task(admission.enter("carl", CancelToken()))
        await settle()
        admission.leave("anna")  # grants it to bert, who does not know yet
        gone.cancel()
        await asyncio.wait_for(next_one, 5)
        assert gone.cancelled()
        assert admission.counts() == (1, 0)

    asyncio.run(scene())


def test_run_that_is_cancelled_while_it_waits_never_starts():
    async def scene():
        admission = Admission(1, 1, most_waiting=3)
        await admission.enter("anna", CancelToken())
        cancel = CancelToken()
        waiting = asyncio.create_task(admission.enter("bert", cancel))
        await settle()
        cancel.cancel()
        assert await asyncio.wait_for(waiting, 5) is False
        assert await admission.enter("carl", cancel) is False
        assert admission.counts() == (1, 0)

    asyncio.run(scene())
