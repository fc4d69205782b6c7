"""Messages whose run was cut off by a restart."""

import asyncio
import copy
import time

import pytest

from owui_plugin import interrupted
from owui_plugin.host import MarkedMessage
from owui_plugin.interrupted import end_as_interrupted, mark_interrupted_runs
from owui_plugin.output_items import MARK, item_id, running_mark, text_item
from owui_plugin.progress import ended_status
from sandbox_core.leases import current_owner

ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
DEAD_OWNER = f"{current_owner().rpartition('/')[0]}/1"  # another process with this pid


def running(owner=DEAD_OWNER, expires=2e9):
    mark = running_mark("r1", owner, expires)
    return {"description": "Running Python…", "done": False, MARK: mark}


def message(**more):
    return {
        "id": "m",
        "content": "",
        "done": False,
        "statusHistory": [running()],
        **more,
    }


@pytest.mark.parametrize(
    "output", [None, [ANSWER], [ANSWER, text_item("r1", "running…")]]
)
def test_message_with_items_or_without_anything(output):
    ended = message(output=output)
    end_as_interrupted(ended)
    assert ended["done"] is True
    assert ended["statusHistory"] == [
        running(),
        ended_status("Interrupted by a restart"),
    ]
    assert ended["output"][:-1] == (output or [])[:1]
    assert ended["output"][-1]["id"] == item_id("r1")
    assert "interrupted by a restart" in ended["output"][-1]["content"][0]["text"]


def test_old_message():
    ended = message(content="answer")
    end_as_interrupted(ended)
    assert ended["content"].startswith("answer\n**Run code** · interrupted\n")
    assert "output" not in ended


def test_a_run_that_ended_meanwhile_stays_as_it_is():
    ended = message(statusHistory=[running(), ended_status("Ran")])
    before = copy.deepcopy(ended)
    end_as_interrupted(ended)
    assert ended == before


class Server:
    """Stands for Open WebUI with some marked messages."""

    def __init__(self, monkeypatch, *statuses):
        self.left = [
            MarkedMessage("c", f"m{number}", "u", [status])
            for number, status in enumerate(statuses)
        ]
        self.ended = []
        self.looks = 0
        monkeypatch.setattr(interrupted, "messages_with_marks", self.messages)
        monkeypatch.setattr(interrupted, "edit_message", self.edit)
        monkeypatch.setattr(interrupted, "emitter_for", self.emitter)

    async def messages(self):
        self.looks += 1
        return self.left

    async def edit(self, chat_id, message_id, change):
        self.ended.append(message_id)
        changed = message()
        change(changed)
        return changed

    async def emitter(self, user_id, chat_id, message_id):
        return None


def test_only_what_is_provably_dead_is_ended(monkeypatch):
    server = Server(monkeypatch, running(), ended_status("Ran"), {"done": True})
    asyncio.run(mark_interrupted_runs())
    assert server.ended == ["m0"]
    assert server.looks == 1


def test_a_second_look_when_the_time_of_the_others_is_over(monkeypatch):
    monkeypatch.setattr(interrupted, "_LEASE_MARGIN_SECONDS", 0.0)
    soon = time.time() + 0.2
    elsewhere = running(owner="another-host/1/1", expires=soon)
    server = Server(
        monkeypatch, elsewhere, running(owner=current_owner(), expires=soon)
    )
    monkeypatch.setattr(
        interrupted, "is_dead", lambda lease, now: now > lease.expires_at
    )
    asyncio.run(mark_interrupted_runs())
    assert server.looks == 2
    assert server.ended == ["m0", "m1"]


def test_a_mark_that_cannot_be_read_is_of_nobody(monkeypatch):
    odd = {**running(), MARK: {"state": "running", "owner": 7, "expires": "soon"}}
    server = Server(monkeypatch, odd)
    asyncio.run(mark_interrupted_runs())
    assert server.ended == ["m0"]
