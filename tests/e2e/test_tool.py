"""The run_code tool in the real Open WebUI: what the model is told, and the person sees."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e.conftest import Person
from tests.e2e.runs import TOOL, result_of, sandboxes_of, valves, wait_until
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel, ToolCall
from tests.owui.server import OpenWebUIServer

Picture = Callable[[ChatPage, str], None]

TOOL_MODEL = "model-with-run-code"
LONG = "import time\nfor n in range(60):\n    print('tick', n)\n    time.sleep(1)"


@pytest.fixture(scope="module")
def tool_model(cold: None, admin: Person) -> None:
    """A model for everybody that has the tool."""
    admin.client.add_model(TOOL_MODEL, MODEL, [TOOL.id])
    admin.client.get("/api/models?refresh=true")


@pytest.fixture(autouse=True)
def clean_end(
    tool_model: None, server: OpenWebUIServer, docker_host: str
) -> Iterator[None]:
    """Five seconds after the end nothing is left."""
    yield
    wait_until(
        lambda: not sandboxes_of(server.pid, docker_host), 5, "no sandbox is left"
    )


def call(code: object, **more: object) -> Reply:
    """The model asks for a run."""
    return Reply(tool_calls=(ToolCall("run_code", {"code": code, **more}),))


def told(person: Person, model: ScriptedModel, *calls: Reply) -> list[str]:
    """What the model is told after each of its calls in one turn."""
    model.script(*calls)
    person.client.ask("use the tool", tool_ids=[TOOL.id])
    last = model.last_messages()
    return [str(m["content"]) for m in last if m["role"] == "tool"]


def test_a_result(member: Person, model: ScriptedModel) -> None:
    (text,) = told(member, model, call("print(6 * 7)\n'val' + 'ue'"))
    assert re.fullmatch(
        r"outcome: ok\nexit_code: 0\nseconds: \d\.\d\d\nstdout:\n42\nvalue:\n'value'\n",
        text,
    )


def test_an_error(member: Person, model: ScriptedModel) -> None:
    (text,) = told(member, model, call("print('out')\nimport nosuchmodule"))
    assert text.startswith("outcome: failed\nexit_code: 1\n")
    assert "message: The program failed with exit code 1.\n" in text
    assert "next: That package is not in the sandbox" in text
    assert "stdout:\nout\n" in text
    assert "ModuleNotFoundError" in text.partition("stderr:\n")[2]


def test_what_is_around_the_code_is_taken_off(
    member: Person, model: ScriptedModel
) -> None:
    texts = told(
        member,
        model,
        call("```python\nprint('fenced')\n```"),
        call("```bash\necho $((2 + 3))\n```"),
        call("`print('ticks')`"),
        call("console.log(typeof 1)", language="JS"),
        call("read line; echo got $line", language="sh", stdin="in\n"),
    )
    outputs = [text.partition("stdout:\n")[2] for text in texts]
    assert outputs == ["fenced\n", "5\n", "ticks\n", "number\n", "got in\n"]


def test_wrong_arguments(member: Person, model: ScriptedModel) -> None:
    missing = Reply(tool_calls=(ToolCall("run_code", {"language": "python"}),))
    texts = told(
        member, model, missing, call("  "), call(42), call("1", language="klingon")
    )
    assert "code" in texts[0]
    assert texts[1].startswith("outcome: not_run\nmessage: There is no code to run")
    assert texts[2].startswith("outcome: ok\n")
    assert texts[3].startswith("outcome: not_run\nmessage: ")
    assert "python" in texts[3]


def test_the_same_failing_call_is_refused_the_third_time(
    member: Person, model: ScriptedModel
) -> None:
    same = call("import sys; sys.exit(9)")
    texts = told(member, model, same, same, same, call("print('other')"))
    assert [text.partition("\n")[0] for text in texts] == [
        "outcome: failed",
        "outcome: failed",
        "outcome: not_run",
        "outcome: ok",
    ]
    assert "Change it" in texts[2]


def test_long_output_fits_the_budget_and_says_so(
    member: Person, model: ScriptedModel
) -> None:
    (text,) = told(member, model, call("for n in range(20000): print('line', n)"))
    assert len(text.encode()) <= 16 * 1024
    assert "at most 16384 bytes" in text
    assert "\nline 0\n" in text
    assert text.endswith("line 19999\n")


def test_the_model_reads_what_is_true(
    admin: Person, member: Person, model: ScriptedModel
) -> None:
    def spec() -> dict[str, Any]:
        model.script(Reply("no call"))
        member.client.ask("hello", tool_ids=[TOOL.id])
        functions = [tool["function"] for tool in model.requests[-1]["tools"]]
        (found,) = [entry for entry in functions if entry["name"] == "run_code"]
        return dict(found)

    before = spec()
    assert "Limits: at most 30 s, 512 MB memory, 1 CPU" in before["description"]
    assert "numpy" in before["description"]
    parameters = before["parameters"]["properties"]
    assert "Languages: python, bash, javascript, perl, sql.\n" in before["description"]
    assert before["parameters"]["required"] == ["code"]
    assert set(parameters) == {"code", "language", "stdin", "packages"}
    assert all(entry["description"] for entry in parameters.values())
    changed = {"timeout_seconds": 7, "memory_mb": 64, "model_output_kb": 2}
    with valves(admin.client, TOOL, image="other:1", **changed):
        after = spec()["description"]
        assert "Limits: at most 7 s, 64 MB memory" in after
        assert "at most 2 KB" in after
        assert "numpy" not in after
    assert spec() == before


def test_h12_and_what_a_person_sees(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(call("print('to' + 'ken')\n1 / 0"), Reply("It failed."))
    member_page.new_chat(TOOL_MODEL)
    member_page.ask("run something")
    member_page.wait_for_answer_text("It failed.")
    assert member_page.status_lines()[-1] == "The program failed with exit code 1."
    assert not member_page.is_shimmering()
    picture(member_page, "closed")
    member_page.page.get_by_text("View Result from").last.click()
    member_page.wait_for_text("token")
    picture(member_page, "open")
    member_page.ask("what was the output?")
    results = [m for m in model.last_messages() if m["role"] == "tool"]
    assert len(results) == 1
    assert "token" in results[0]["content"]
    assert "ZeroDivisionError" in results[0]["content"]


def test_h03_stop_keeps_what_was_printed(
    member_page: ChatPage,
    member: Person,
    model: ScriptedModel,
    server: OpenWebUIServer,
    docker_host: str,
    picture: Picture,
) -> None:
    model.script(call(LONG))
    member_page.new_chat(TOOL_MODEL)
    member_page.send("run something long")
    member_page.wait_for_text("Running Python…")
    wait_until(lambda: sandboxes_of(server.pid, docker_host), 10, "a sandbox runs")
    time.sleep(2)
    picture(member_page, "running")
    member_page.stop()
    wait_until(
        lambda: not sandboxes_of(server.pid, docker_host), 3, "the sandbox is gone"
    )
    member_page.wait_for_answer_text("Python · stopped", timeout=10)
    picture(member_page, "stopped")
    member_page.reload()
    member_page.wait_for_answer_text("tick 0")
    assert not member_page.is_shimmering()
    picture(member_page, "reloaded")
    message = member.client.message(member_page.chat_id)
    assert message["done"]
    assert message["statusHistory"][-1]["done"]
    assert "stopped" in result_of(message)
    member_page.ask("what came out?")
    assert model.sees("tick 0")


def test_stop_reaches_a_run_that_waits(
    member: Person, model: ScriptedModel, server: OpenWebUIServer, docker_host: str
) -> None:
    client = member.client
    model.script(*[call(LONG)] * 3)  # a person may have two at one time
    turns = [client.start_turn("go", tool_ids=[TOOL.id]) for _ in range(3)]

    def last_status(chat_id: str, message_id: str) -> str:
        history = client.message(chat_id, message_id).get("statusHistory") or [{}]
        return str(history[-1].get("description"))

    def waiting() -> list[tuple[str, str]]:
        return [turn for turn in turns if last_status(*turn).startswith("Waiting")]

    wait_until(waiting, 15, "the third waits")
    wait_until(
        lambda: len(sandboxes_of(server.pid, docker_host)) == 2, 10, "two sandboxes"
    )
    (third,) = waiting()
    client.stop_answer(third[0])
    wait_until(
        lambda: last_status(*third).startswith("The run was stopped"), 3, "it stopped"
    )
    assert len(sandboxes_of(server.pid, docker_host)) == 2
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(client.stop_answer, [chat_id for chat_id, _ in turns]))


def test_h14_old_tool_mode_tells_the_result_once(
    member: Person, model: ScriptedModel
) -> None:
    client = member.client
    wanted = '{"tool_calls": [{"name": "run_code", "parameters": {"code": "%s"}}]}'
    model.script(Reply(wanted % "print('to' + 'ken')"), Reply("Done."))
    client.function_calling = "legacy"
    try:
        _, answer = client.ask("use the tool", tool_ids=[TOOL.id])
    finally:
        client.function_calling = "native"
    assert answer["content"] == "Done."
    sent = str(model.last_messages())
    assert sent.count("outcome: ok") == 1
    assert sent.count("token") == 1
