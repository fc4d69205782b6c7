"""The button finds the code in a message and runs what it should: source and artifact."""

import re
from pathlib import Path

import pytest

from tests.plugin.clicks import press, press_body

MESSAGES = Path(__file__).resolve().parents[1] / "unit/data/messages"
BACKTICKS = "```"


def message(name):
    return (MESSAGES / f"{name}.md").read_bytes().decode("utf-8")


def answers(*replies):
    """A page whose person gives these answers to the dialogs; what was asked is kept."""
    asked = []
    waiting = list(replies)

    async def call(event):
        asked.append(event)
        return waiting.pop(0)

    call.asked = asked
    return call


def output_of(text):
    """What stands in the first fence of a result."""
    found = re.search(r"\n(`{3,})text\n(.*?)\n?\1\n", text, re.DOTALL)
    return found[2] if found else ""


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("four-backticks", "4"),
        ("tilde", "wave"),
        ("in-a-list", "7"),
        ("tabs-in-a-bullet", "tab"),
        ("unclosed", "0\n1\n2"),
        ("records", "answer"),
        ("unclosed-record", "before"),
        ("crlf", "yes"),
    ],
)
def test_the_one_block_runs(action, name, output):
    pressed = press(action, message(name))
    assert "· ok ·" in pressed.text
    assert output_of(pressed.text) == output


def test_p09_an_answer_that_was_cut(action):
    text = press(action, message("unclosed")).text
    assert "The block was not closed; the answer may be cut." in text


@pytest.mark.parametrize("name", ["inline", "quotes-and-comments"])
def test_p19_nothing_to_run(action, name):
    pressed = press(action, message(name))
    assert pressed.answer is None
    assert len(pressed.statuses) == 1
    assert pressed.statuses == pressed.notices
    assert pressed.statuses[0].startswith("There is nothing to run")


def test_p01_the_dialog_decides(action):
    call = answers("all", "0", False, "")
    two = message("two-python")
    assert "blocks 1–2 of 2, python" in press(action, two, call=call).text
    assert "block 1 of 2, python" in press(action, two, call=call).text
    for _ in ("cancelled", "nothing picked"):
        pressed = press(action, two, call=call)
        assert (pressed.answer, pressed.statuses, pressed.notices) == (None, [], [])
    labels = [o["label"] for o in call.asked[0]["data"]["input"]["options"]]
    assert labels[0] == "All, in order, in one sandbox"
    assert len(labels) == 3


def test_p01_the_last_block_when_nobody_can_be_asked(action):
    gone = answers({"error": "Client session disconnected."})
    for call in (None, gone):
        text = press(action, message("two-python"), call=call).text
        assert "block 2 of 2, python" in text


def test_p02_installs_are_off(action):
    text = press(action, message("install-then-python")).text
    assert "Installing packages is off" in text
    assert "ModuleNotFoundError" in text
    only = press(action, f"{BACKTICKS}bash\npip install cowsay\n{BACKTICKS}")
    assert only.answer is None
    assert only.notices[0].startswith("Installing packages is off")


@pytest.mark.parametrize("tag", ["python", "py", "Python3", "PYTHON", 'python x="y"'])
def test_p10_tags_of_python(action, tag):
    text = press(action, f"{BACKTICKS}{tag}\nprint(1)\n{BACKTICKS}").text
    assert re.match(r"\n\*\*Run code\*\* · Python · ok", text)
    assert output_of(text) == "1"


@pytest.mark.parametrize("tag", ["pythonic", "shellcheck", "text", "cobol", "output"])
def test_p10_other_tags_never_run(action, tag):
    pressed = press(action, f"{BACKTICKS}{tag}\nprint(1)\n{BACKTICKS}")
    assert pressed.answer is None
    assert "These can: python" in pressed.statuses[0]


def test_p10_no_tag_is_asked_for(action):
    untagged = f"{BACKTICKS}\nprint(1)\n{BACKTICKS}"
    assert press(action, untagged).answer is None
    assert press(action, untagged, call=answers(False)).answer is None
    assert "· Python · ok" in press(action, untagged, call=answers("python")).text
    shebang = f"{BACKTICKS}\n#!/bin/bash\necho ba$((1))\n{BACKTICKS}"
    assert output_of(press(action, shebang).text) == "ba1"


def test_p11_only_prompted_commands_of_a_transcript_run(action):
    console = f"{BACKTICKS}console\n$ echo run$((1))\nrm -rf nothing\n{BACKTICKS}"
    assert output_of(press(action, console).text) == "run1"


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"id": "m", "content": [{"type": "text", "text": "#"}]}]},
        {"messages": [{"id": "m", "content": None}]},
        {"messages": [{"id": "m"}]},
        {"messages": [{"id": "another", "content": "```python\nprint(1)\n```"}]},
        {"messages": []},
        {"messages": None},
        {"messages": "x"},
        {},
    ],
)
def test_p16_odd_bodies_have_nothing_to_run(action, body):
    pressed = press_body(action, body)
    assert pressed.answer is None
    assert pressed.statuses[0].startswith("There is nothing to run")


def test_p16_content_in_parts(action):
    parts = [{"type": "text", "text": f"{BACKTICKS}python\nprint('A')\n{BACKTICKS}"}]
    assert output_of(press(action, parts).text) == "A"


def test_our_own_results_are_no_code(action):
    code = f"{BACKTICKS}python\nprint('{BACKTICKS}python')\nprint(6)\n{BACKTICKS}\n"
    first = press(action, code)
    again = press(action, code + first.text)
    assert output_of(again.text) == output_of(first.text)


def test_joined_blocks_share_names_and_errors_name_their_block(action):
    two = (
        f"{BACKTICKS}python\nx = 1\n{BACKTICKS}\n\n"
        f"{BACKTICKS}python\nprint(x)\n\n1 / 0\n{BACKTICKS}\n"
    )
    text = press(action, two, call=answers("all")).text
    assert output_of(text).startswith("1\nTraceback")
    assert "Line 4 of main.py is line 3 of block 2." in text


def test_languages_in_one_sandbox(action):
    mixed = (
        f"{BACKTICKS}python\nopen('f', 'w').write('from py')\n{BACKTICKS}\n"
        f"{BACKTICKS}bash\ncat f; echo\n{BACKTICKS}\n"
        f"{BACKTICKS}js\nconsole.log(2 ** 5)\n{BACKTICKS}\n"
    )
    text = press(action, mixed, call=answers("all")).text
    assert "blocks 1–3 of 3, python, bash, javascript · ok" in text
    assert output_of(text) == "from py\n32"
