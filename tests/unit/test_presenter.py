"""Results under the three kinds of messages, and results that were lost."""

import asyncio
import copy

import pytest

from owui_plugin import presenter
from owui_plugin.output_items import MARK, running_mark, text_item
from owui_plugin.presenter import Presenter, add_item
from owui_plugin.progress import ended_status
from owui_plugin.runtime import process_board

ANSWER = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "answer"}],
}
RUNNING = {"description": "…", "done": False, MARK: running_mark("r1", "me", 9.0)}
ENDED = ended_status("Ran Python · 0.1 s")
LEFT_PAGE = {"content": {}}


class Store:
    """Stands for Open WebUI's store of messages, with one message in it."""

    def __init__(self, message):
        self.message = message
        self.works = True
        self.writes = 0
        self.events = []

    async def read(self, chat_id, message_id):
        return copy.deepcopy(self.message)

    async def edit(self, chat_id, message_id, change):
        if not self.works or self.message is None:
            return None
        self.writes += 1
        change(self.message)
        return copy.deepcopy(self.message)

    async def emit(self, event):
        self.events.append((event["type"], event["data"]))

    def kinds(self):
        return [kind for kind, _ in self.events]


@pytest.fixture
def store(monkeypatch):
    store = Store({"id": "m", "content": "answer", "output": [copy.deepcopy(ANSWER)]})
    monkeypatch.setattr(presenter, "edit_message", store.edit)
    monkeypatch.setattr(presenter, "stored_message", store.read)
    monkeypatch.setattr(presenter, "plain_content", lambda output, before: "plain")
    monkeypatch.setattr(presenter, "_LOOKS_AFTER", (0.01, 0.02))
    return store


def show(store, *, lose=None):
    """Shows a run from begin to end. ``lose`` is done to the message before it is looked at
    again. Returns what the action returns."""

    async def work():
        stored = copy.deepcopy(store.message)
        shown = Presenter("c", "m", stored, "answer", store.emit)
        await shown.show_running("r1", "RUNNING", RUNNING)
        answer = await shown.show_result("r1", "RESULT", ENDED)
        if lose:
            lose(store.message)
        while tasks := process_board().tasks:
            await asyncio.wait(set(tasks))
        return answer

    return asyncio.run(work())


def test_message_with_items(store):
    assert show(store) is None
    assert store.message["output"] == [ANSWER, text_item("r1", "RESULT")]
    assert store.message["content"] == "plain"
    assert store.kinds() == ["chat:completion", "status"] * 2
    assert store.events[0][1]["output"][1] == text_item("r1", "RUNNING")
    assert store.events[1][1] == RUNNING
    assert store.events[2][1] == {"output": store.message["output"]}
    assert store.events[3][1] == ENDED
    assert store.message["statusHistory"] == [RUNNING, ENDED]


def test_each_moment_is_one_write(store):
    show(store)
    assert store.writes == 2


def test_old_message(store):
    del store.message["output"]
    assert show(store) is None
    assert store.message["content"] == "answerRESULT"
    assert store.events == [
        ("status", RUNNING),
        ("chat:message:delta", {"content": "RESULT"}),
        ("status", ENDED),
    ]
    assert store.message["statusHistory"] == [RUNNING, ENDED]


@pytest.mark.parametrize("message", [None, {}])
def test_message_that_only_the_browser_has(store, message):
    store.message = message
    assert show(store) == {"messages": [{"id": "m", "content": "answerRESULT"}]}
    assert store.kinds() == ["status", "status"]


@pytest.mark.parametrize("kind", ["items", "old"])
def test_a_result_that_cannot_be_stored_is_shown_with_a_warning(store, kind):
    if kind == "old":
        del store.message["output"]
    store.works = False
    assert show(store) is None
    shown = {
        "items": ("chat:completion", {"output": [ANSWER, text_item("r1", "RESULT")]}),
        "old": ("chat:message:delta", {"content": "RESULT"}),
    }
    assert shown[kind] in store.events
    assert store.kinds()[-2:] == ["status", "notification"]
    assert "could not be saved" in store.events[-1][1]["content"]


def test_what_a_browser_wrote_over_is_written_again(store):
    def lose(message):
        message["output"] = [ANSWER, text_item("r1", "RUNNING")]
        message["statusHistory"] = [RUNNING]
        message["error"] = LEFT_PAGE

    show(store, lose=lose)
    assert store.message["output"] == [ANSWER, text_item("r1", "RESULT")]
    assert store.message["statusHistory"] == [RUNNING, ENDED]
    assert store.message["error"] is None
    assert store.kinds()[-1] == "chat:completion"


def test_an_old_message_loses_the_error_of_a_page_that_was_left(store):
    del store.message["output"]
    show(store, lose=lambda message: message.update(error=LEFT_PAGE))
    assert store.message["error"] is None
    assert store.message["content"] == "answerRESULT"


def test_real_errors_and_the_status_of_another_run_stay(store):
    error = {"content": "The model is overloaded."}
    other = {**RUNNING, MARK: running_mark("r2", "me", 9.0)}
    show(store, lose=lambda m: m.update(error=error, statusHistory=[other], output=[]))
    assert store.message["error"] == error
    assert store.message["statusHistory"] == [other]
    assert store.message["output"] == [text_item("r1", "RESULT")]


def test_a_result_that_is_there_is_not_written_again(store):
    show(store)
    assert store.kinds().count("chat:completion") == 2


@pytest.mark.parametrize("content", [{}, "{}", "", None])
def test_an_error_without_words_goes(store, content):
    store.message["error"] = {"content": content}
    assert asyncio.run(add_item("c", "m", text_item("r1", "x"), store.emit))
    assert store.message["error"] is None


def test_a_message_that_is_gone(store):
    store.message = None
    assert not asyncio.run(add_item("c", "m", text_item("r1", "x"), store.emit))
    assert store.events == []
