"""Our items in a message's output, and our marks in its status lines."""

import pytest

from owui_plugin.messages import message_text
from owui_plugin.output_items import (
    MARK,
    ended_mark,
    has_item,
    item_id,
    put_item,
    running_mark,
    text_item,
    unfinished_mark,
)

ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "content": []}
RUNNING = {"description": "…", "done": False, MARK: running_mark("r1", "me", 9.0)}
ENDED = {"description": "…", "done": True, MARK: ended_mark()}


def test_an_item_is_added_once_and_then_replaced():
    first, second = text_item("r1", "running"), text_item("r1", "result")
    other = text_item("r2", "another run")
    output = put_item(put_item([ANSWER], first), other)
    assert output == [ANSWER, first, other]
    assert put_item(output, second) == [ANSWER, second, other]
    assert put_item(put_item(output, second), second) == [ANSWER, second, other]
    assert output == [ANSWER, first, other], "the list that was given stays as it was"


@pytest.mark.parametrize("output", [None, "", {}, 7])
def test_an_output_that_is_no_list_counts_as_empty(output):
    item = text_item("r1", "x")
    assert put_item(output, item) == [item]
    assert not has_item(output, item)


def test_odd_entries_stay():
    assert put_item([None, "x", {}], ANSWER) == [None, "x", {}, ANSWER]


def test_exactly_this_item():
    item = text_item("r1", "result")
    assert has_item([ANSWER, item], dict(item))
    assert not has_item([ANSWER, text_item("r1", "running")], item)


def test_our_items_are_not_the_models_words():
    assert message_text({"output": [text_item("r1", "```python\n1\n```")]}) == ""
    assert item_id("r1") == text_item("r1", "")["id"]


@pytest.mark.parametrize(
    ("history", "is_unfinished"),
    [
        ([RUNNING], True),
        ([ENDED, RUNNING], True),
        ([RUNNING, ENDED], False),
        ([RUNNING, {"description": "a search", "done": True}], False),
        ([{"description": "a search", "done": False}], False),
        ([{**RUNNING, MARK: "odd"}], False),
        ([], False),
        (None, False),
        ("odd", False),
        (["odd"], False),
    ],
)
def test_only_the_last_status_counts(history, is_unfinished):
    assert bool(unfinished_mark(history)) is is_unfinished
