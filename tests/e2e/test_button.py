"""The Run code button in the real Open WebUI, in a real browser, over real gVisor."""

from collections.abc import Callable

from tests.e2e.conftest import Person
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel

Picture = Callable[[ChatPage, str], None]


def fenced(code: str, tag: str = "python") -> str:
    return f"Here you go:\n\n```{tag}\n{code}\n```\n"


def test_result_is_seen_now_after_reload_and_by_the_model(
    plugins: None, member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply(fenced("print(6 * 7)")))
    member_page.new_chat(MODEL)
    member_page.ask("what is six times seven?")
    assert member_page.press_and_wait("Run code") == 200
    member_page.wait_for_answer_text("42")
    picture(member_page, "live")
    member_page.reload()
    assert "42" in member_page.answer_text()
    picture(member_page, "reloaded")
    member_page.ask("and now?")
    assert model.sees("42")
    assert member_page.requests_elsewhere() == []
