"""Host trouble, as people see it: the engine is gone or hangs, Open WebUI is restarted."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from scripts.bringup.rest import OpenWebUIError, Refused
from tests.docker_proxy import DockerProxy
from tests.e2e.conftest import Person
from tests.e2e.runs import (
    BUTTON,
    FUNCTION,
    TOOL,
    fenced,
    press,
    result_of,
    run,
    sandboxes_of,
    store_answer,
    valves,
    wait_until,
)
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel, ToolCall
from tests.owui.server import OpenWebUIServer

Picture = Callable[[ChatPage, str], None]

pytestmark = pytest.mark.usefixtures("cold")

SLEEPER = "import time\nprint('begun')\ntime.sleep(60)"


@pytest.fixture
def proxy(
    socket_folder: Path, docker_host: str, admin: Person
) -> Iterator[DockerProxy]:
    """Both plugins use this engine during the test."""
    proxy = DockerProxy(socket_folder / "docker.sock", docker_host)
    proxy.up()
    try:
        with valves(admin.client, docker_host=proxy.docker_host):
            yield proxy
    finally:
        proxy.down()


@pytest.fixture
def warm(admin: Person, member: Person) -> Iterator[None]:
    """There is a sandbox ready, which nobody may forget either."""
    with valves(admin.client, warm_sandboxes=1):
        run(member.client, "print(1)")
        yield


def told_by_tool(person: Person, model: ScriptedModel, code: str) -> str:
    """What the model is told of a run, and the status that the person sees, in two lines."""
    model.script(Reply(tool_calls=(ToolCall("run_code", {"code": code}),)))
    _, answer = person.client.ask("use the tool", tool_ids=[TOOL.id])
    status = answer["statusHistory"][-1]
    assert status["done"]
    return f"{model.last_messages()[-1]['content']}\n{status['description']}"


def is_one_refusal(text: str, words: str) -> bool:
    """A heading, a sentence with these words, advice, and nothing of the machine."""
    heading = r"\n\*\*Run code\*\* · Python · could not run\n"
    sentences = rf"[^\n]*{words}[^\n]*\n[^\n]*\n"
    harmless = not re.search(r"Traceback|Error|unix:|\.sock|http|/tmp|/var", text)
    return bool(re.fullmatch(heading + sentences, text)) and harmless


def test_h04_h05_the_engine_goes_hangs_and_comes_back(
    proxy: DockerProxy,
    member: Person,
    member_page: ChatPage,
    model: ScriptedModel,
    picture: Picture,
) -> None:
    assert "· ok ·" in run(member.client, "print(1)")
    proxy.down()
    chat_id, message_id = store_answer(member.client, fenced("print(2)"))
    begin = time.monotonic()
    text = result_of(press(member.client, chat_id, message_id))
    assert time.monotonic() - begin < 5
    assert is_one_refusal(text, "container engine cannot be reached"), text
    begin = time.monotonic()
    told = told_by_tool(member, model, "print(1)")
    assert time.monotonic() - begin < 6
    assert told.startswith("outcome: sandbox_error\n")
    assert told.count("The container engine cannot be reached") == 2
    proxy.up()
    assert "· ok ·" in run(member.client, "print(1)")

    proxy.down()
    proxy.up()
    proxy.hang()
    begin = time.monotonic()
    text = run(member.client, "print(1)")
    assert time.monotonic() - begin < 15
    assert is_one_refusal(text, "did not answer in time"), text
    proxy.down()
    proxy.up()
    assert "· ok ·" in run(member.client, "print(1)")

    member_page.open_chat(chat_id)
    member_page.wait_for_answer_text("could not run")
    picture(member_page, "refused")


def test_h06_the_image_is_missing(admin: Person, member: Person) -> None:
    with valves(admin.client, FUNCTION, image="run-code-no-such-image:1"):
        begin = time.monotonic()
        text = run(member.client, "print(1)")
        assert time.monotonic() - begin < 5
    assert is_one_refusal(text, "sandbox image [^\n]*not on this host"), text
    assert "docker build -t run-code-no-such-image:1 images/python" in text
    assert "· ok ·" in run(member.client, "print(1)")


@pytest.mark.parametrize(
    ("runtime", "words"),
    [("no-such-runtime", "gVisor is not set up"), ("runc", "is not gVisor")],
)
def test_h07_nothing_runs_without_gvisor(
    admin: Person, member: Person, runtime: str, words: str
) -> None:
    with valves(admin.client, FUNCTION, runtime=runtime):
        text = run(member.client, "print('ran')")
    assert is_one_refusal(text, words), text


def test_bad_valves_are_refused(
    admin: Person, member: Person, server: OpenWebUIServer
) -> None:
    for plugin in (FUNCTION, TOOL):
        with pytest.raises(Refused):
            admin.client.post(f"{plugin.path}/valves/update", {"timeout_seconds": 0})
        own = {"timeout_seconds": 0.01}
        with pytest.raises(Refused):
            member.client.post(f"{plugin.path}/valves/user/update", own)
    # Open WebUI keeps the reason from the browser, but tells its log.
    assert "greater than or equal to 0.1" in server.log_text()
    assert "use 0, or at least 0.1 s" in server.log_text()


def test_h01_a_restart_during_runs(
    warm: None,
    server: OpenWebUIServer,
    docker_host: str,
    member: Person,
    member_page: ChatPage,
    model: ScriptedModel,
    picture: Picture,
) -> None:
    client = member.client
    by_button = store_answer(client, fenced(SLEEPER))
    old_kind = client.new_chat([("user", "q"), ("assistant", fenced(SLEEPER))])

    def press_until_killed(chat_id: str, message_id: str) -> None:
        with suppress(OpenWebUIError, OSError):
            client.run_action(FUNCTION.id, chat_id, message_id)

    for where in (by_button, old_kind):
        Thread(target=press_until_killed, args=where, daemon=True).start()
    model.script(Reply(tool_calls=(ToolCall("run_code", {"code": SLEEPER}),)))
    by_tool = client.start_turn("use the tool", tool_ids=[TOOL.id])
    everything = (by_button, old_kind, by_tool)

    def under_way() -> bool:
        histories = [
            client.message(*where).get("statusHistory") for where in everything
        ]
        words = [h[-1]["description"].split()[0] for h in histories if h]
        return sorted(words) == ["Running", "Running", "Waiting"]

    old_pid = server.pid
    wait_until(under_way, 30, "all are under way, the third in the queue")
    wait_until(lambda: len(sandboxes_of(old_pid, docker_host)) >= 2, 20, "two run")
    server.crash()
    server.start()
    begin = time.monotonic()
    wait_until(lambda: not sandboxes_of(old_pid, docker_host), 60, "no sandbox is left")
    for name, (chat_id, message_id) in zip(
        ("button", "old", "tool"), everything, strict=True
    ):
        member_page.open_chat(chat_id)
        member_page.wait_for_answer_text("interrupted by a restart", timeout=30)
        assert "Run code · interrupted" in member_page.answer_text()
        assert "running…" not in member_page.answer_text()
        assert not member_page.is_shimmering()
        picture(member_page, name)
        message = client.message(chat_id, message_id)
        assert message["done"]
        assert message["statusHistory"][-1]["done"]
    assert time.monotonic() - begin < 60
    member_page.open_chat(by_button[0])
    member_page.press(BUTTON)  # and it can be run again
    member_page.wait_for_answer_text("Run code · Python · running…")
    time.sleep(1.2)
    member_page.press(BUTTON)
    member_page.confirm()
    member_page.wait_for_answer_text("Python · stopped")


def test_an_administrator_checks_the_sandbox_from_any_answer(
    admin: Person, admin_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply("No code in here."))
    with valves(admin.client, image="no-such-image:1"):
        admin_page.new_chat(MODEL)
        admin_page.ask("hello")
        admin_page.press(BUTTON)
        assert "nothing to run" in admin_page.dialog().inner_text()
        admin_page.confirm()
        admin_page.wait_for_text("1 to mend")
        admin_page.wait_for_text("The image no-such-image:1 is not on this host")
        picture(admin_page, "report")
        admin_page.confirm()


def test_nobody_else_is_asked(member_page: ChatPage, model: ScriptedModel) -> None:
    model.script(Reply("No code in here."))
    member_page.new_chat(MODEL)
    member_page.ask("hello")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_text("There is nothing to run")
    assert not member_page.page.get_by_text("Check the sandbox?").count()
