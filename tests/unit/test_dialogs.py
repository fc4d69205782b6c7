"""Questions to a person, and what counts as the answer of one who cannot be asked."""

import asyncio

import pytest

from owui_plugin import dialogs
from owui_plugin.blocks import find_blocks, runnable
from owui_plugin.check import report_text
from owui_plugin.dialogs import (
    CHECK,
    ask_to_check,
    ask_to_stop,
    choose_blocks,
    choose_language,
)
from sandbox_core.engines.base import Finding

TWO = runnable(find_blocks("```python\na = 1\n```\n\n```sh\n\necho b\n```\n"))
UNTAGGED = find_blocks("```\nprint('?')\n```\n")[0]


class Page:
    """A page on which each dialog is answered with the same thing."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def __call__(self, event):
        self.asked.append(event)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def ask(question, page, *arguments):
    return asyncio.run(question(page, *arguments))


def test_only_an_administrator_is_offered_the_check_of_the_sandbox():
    page = Page(CHECK)
    assert ask(choose_blocks, page, TWO, True) == CHECK
    assert ask(choose_blocks, page, TWO) == []
    offered = [
        [option["value"] for option in event["data"]["input"]["options"]]
        for event in page.asked
    ]
    assert offered == [["all", "0", "1", CHECK], ["all", "0", "1"]]


@pytest.mark.parametrize(
    ("answer", "wanted"), [(True, True), (False, False), (RuntimeError(), False)]
)
def test_the_check_begins_only_when_it_was_asked_for(answer, wanted):
    page = Page(answer)
    assert ask(ask_to_check, page, "There is nothing to run.") is wanted
    assert "There is nothing to run." in page.asked[0]["data"]["message"]


def test_the_report_shows_what_is_wrong_first_and_its_mend():
    findings = [
        Finding("python", True, "Python runs."),
        Finding("no-network", False, "There is one.", "--network=none", "It leaks."),
    ]
    text = report_text(findings)
    assert text.index("no-network") < text.index("python")
    assert "It leaks." in text
    assert "Mend it: `--network=none`" in text


def test_one_block_needs_no_question():
    page = Page("all")
    assert ask(choose_blocks, page, TWO[:1]) == TWO[:1]
    assert page.asked == []


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ("all", [0, 1]),
        ("0", [0]),
        ("1", [1]),
        ("2", []),
        ("-1", []),
        ("", []),  # confirmed without a choice
        (False, []),  # cancelled
        (None, []),
        (["all"], []),
        ({"error": "Client session disconnected."}, [1]),
        (RuntimeError("no socket"), [1]),
    ],
)
def test_choice_of_blocks(answer, chosen):
    page = Page(answer)
    assert ask(choose_blocks, page, TWO) == [TWO[index] for index in chosen]
    (event,) = page.asked
    assert event["type"] == "input"
    assert event["data"]["value"] == "all"
    assert event["data"]["input"]["options"] == [
        {"value": "all", "label": "All, in order, in one sandbox"},
        {"value": "0", "label": "1: python — a = 1"},
        {"value": "1", "label": "2: bash — echo b"},
    ]


def test_without_a_page_the_last_block_runs_and_no_language_is_guessed():
    assert ask(choose_blocks, None, TWO) == [TWO[1]]
    assert ask(choose_language, None, UNTAGGED) == ""
    assert ask(ask_to_stop, None) is False


@pytest.mark.parametrize(
    ("answer", "language"),
    [("bash", "bash"), ("", ""), (False, ""), ("cobol", ""), ({"error": "gone"}, "")],
)
def test_choice_of_a_language(answer, language):
    page = Page(answer)
    assert ask(choose_language, page, UNTAGGED) == language
    assert "print('?')" in page.asked[0]["data"]["message"]


@pytest.mark.parametrize(
    ("answer", "stops"),
    [(True, True), (False, False), (None, False), ("true", False), ({}, False)],
)
def test_only_a_clear_yes_stops_a_run(answer, stops):
    assert ask(ask_to_stop, Page(answer)) is stops


def test_a_person_who_does_not_answer_has_cancelled(monkeypatch):
    async def silence(event):
        await asyncio.sleep(60)

    monkeypatch.setattr(dialogs, "_PATIENCE_SECONDS", 0.01)
    assert ask(choose_blocks, silence, TWO) == []
    assert ask(ask_to_stop, silence) is False


def test_a_synchronous_caller_of_an_older_version_will_do():
    assert ask(choose_blocks, lambda event: "1", TWO) == [TWO[1]]
