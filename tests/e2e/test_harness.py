"""The harness itself: a tiny Action and a tiny Tool through the real Open WebUI."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from scripts.bringup.demo_model import decide
from scripts.bringup.plugins import Plugin, install, plugin_files
from scripts.bringup.process import Process, free_port, is_running, launch, stop
from tests.e2e.conftest import Person
from tests.e2e.runs import valves
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel, ToolCall
from tests.owui.server import OpenWebUIServer

SCRIPTS = Path(__file__).parents[2] / "scripts"

Picture = Callable[[ChatPage, str], None]

# Counts the words of the answer; asks first when the answer says so.
ACTION = '''"""
title: Count words
description: Test aid
"""

import copy

from open_webui.models.chats import Chats


class Action:
    async def action(self, body, __event_emitter__=None, __event_call__=None):
        unit = "words"
        if "CHOOSE" in body["messages"][-1]["content"]:
            unit = await __event_call__(
                {
                    "type": "input",
                    "data": {
                        "title": "Count what?",
                        "message": "Pick one",
                        "value": "words",
                        "input": {
                            "type": "select",
                            "options": [
                                {"value": "words", "label": "All words"},
                                {"value": "letters", "label": "All letters"},
                            ],
                        },
                    },
                }
            )
            if unit is False:
                return
        await __event_emitter__(
            {"type": "status", "data": {"description": "Counted", "done": True}}
        )
        chat_id, message_id = body["chat_id"], body["id"]
        async with Chats.edit_message_output(chat_id, message_id) as message:
            text = message["output"][0]["content"][0]["text"]
            count = len(text.split() if unit == "words" else text)
            message["output"].append(
                {
                    "type": "message",
                    "id": "msg_count",
                    "status": "completed",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": f"{count} {unit}"}],
                }
            )
            output = copy.deepcopy(message["output"])
        await __event_emitter__({"type": "chat:completion", "data": {"output": output}})
'''

TOOL = '''"""
title: Wait
description: Test aid
"""

import asyncio


class Tools:
    async def wait(self, seconds: int) -> str:
        """
        Wait.

        :param seconds: how long
        """
        await asyncio.sleep(seconds)
        return f"waited {seconds} s"
'''


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False
    )


def run_script(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, str(SCRIPTS / "install_plugins.py"), *arguments)


def run_up(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(str(SCRIPTS / "up"), *arguments)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@pytest.fixture(scope="module")
def aids(admin: Person) -> Iterator[None]:
    install(
        admin.client,
        [
            Plugin("functions", "count_words", ACTION, {"title": "Count words"}),
            Plugin("tools", "wait", TOOL, {"title": "Wait"}),
        ],
    )
    admin.client.add_model("model-with-tool", MODEL, ["wait"])
    yield
    admin.client.delete("/api/v1/functions/id/count_words/delete")
    admin.client.delete("/api/v1/tools/id/wait/delete")
    admin.client.get("/api/models?refresh=true")


@pytest.mark.usefixtures("aids")
class TestAction:
    def test_result_shows_live_and_after_reload_and_next_turn(
        self, member_page: ChatPage, model: ScriptedModel, picture: Picture
    ) -> None:
        model.script(Reply("one two three"))
        member_page.new_chat(MODEL)
        member_page.ask("please count")
        assert member_page.press_and_wait("Count words") == 200
        member_page.wait_for_answer_text("3 words")
        assert member_page.status_lines() == ["Counted"]
        assert not member_page.is_shimmering()
        picture(member_page, "live")

        member_page.reload()
        assert "3 words" in member_page.answer_text()

        member_page.ask("and now?")
        assert model.sees("3 words")
        assert member_page.requests_elsewhere() == []

    def test_dialog_offers_options_and_returns_the_choice(
        self, admin_page: ChatPage, model: ScriptedModel, picture: Picture
    ) -> None:
        model.script(Reply("CHOOSE"))
        admin_page.new_chat(MODEL)
        admin_page.ask("please count")
        admin_page.press("Count words")
        assert admin_page.dialog_options() == ["All words", "All letters"]
        picture(admin_page, "dialog")
        admin_page.choose("All letters")
        admin_page.wait_for_answer_text("6 letters")

    def test_cancelled_dialog_leaves_the_answer_alone(
        self, admin_page: ChatPage, model: ScriptedModel
    ) -> None:
        model.script(Reply("CHOOSE"))
        admin_page.new_chat(MODEL)
        admin_page.ask("please count")
        admin_page.press("Count words")
        admin_page.cancel()
        assert admin_page.answer_text() == "CHOOSE"

    def test_action_by_rest(self, member: Person, model: ScriptedModel) -> None:
        model.script(Reply("one two"))
        chat_id, answer = member.client.ask("please count")
        member.client.run_action("count_words", chat_id, answer["id"])
        stored = member.client.message(chat_id)
        assert stored["output"][-1]["content"][0]["text"] == "2 words"


@pytest.mark.usefixtures("aids")
class TestTool:
    def test_model_gets_the_result(self, member: Person, model: ScriptedModel) -> None:
        model.script(Reply(tool_calls=(ToolCall("wait", {"seconds": 0}),)))
        _, answer = member.client.ask("wait a bit", tool_ids=["wait"])
        assert answer["content"] == "tool said: waited 0 s"

    def test_stop_button_ends_the_call(
        self, member_page: ChatPage, member: Person, model: ScriptedModel
    ) -> None:
        model.script(Reply(tool_calls=(ToolCall("wait", {"seconds": 60}),)))
        member_page.new_chat("model-with-tool")
        member_page.send("wait long")
        member_page.wait_for_text("Executing wait")
        member_page.stop()
        member_page.wait_for_answer(timeout=10)
        stored = member.client.message(member_page.chat_id)
        assert stored["done"]
        assert stored["output"][-1]["status"] == "incomplete"


class TestInstallScript:
    """scripts/install_plugins.py as people call it."""

    def test_installs_and_updates_with_settings(
        self, server: OpenWebUIServer, admin: Person
    ) -> None:
        access = ["--url", server.url, "--api-key", admin.client.token]
        first = run_script(*access)
        assert "Installed the Function" in first.stdout or "Updated" in first.stdout
        assert "run_code" in admin.client.actions()
        second = run_script(*access, "--admin-only", "--valve", "priority=5")
        assert second.returncode == 0, second.stderr
        assert "Updated the Tool 'run_code' (for administrators)." in second.stdout
        valves = admin.client.get("/api/v1/functions/id/run_code/valves")
        assert valves["priority"] == 5
        # As the other tests of the session expect it.
        secret = "s" * 32
        back = ("--valve", "priority=0", "--valve", f"codebox_secret={secret}")
        third = run_script(*access, *back)
        assert "Updated the Tool 'run_code' (for all users)." in third.stdout
        assert "Set codebox_secret=(not shown)" in third.stdout
        assert secret not in third.stdout + third.stderr
        run_script(*access, "--valve", "codebox_secret=")

    def test_check_says_why_the_button_is_missing(
        self, server: OpenWebUIServer, admin: Person, plugins: None
    ) -> None:
        check = ["--url", server.url, "--api-key", admin.client.token, "--check"]
        well = run_script(*check)
        assert well.returncode == 0, well.stdout + well.stderr
        assert "The button ran a program in a sandbox." in well.stdout
        button, tool = plugin_files()
        with valves(admin.client, button, docker_host="unix:///nowhere.sock"):
            broken = run_script(*check)
        assert broken.returncode == 1
        assert "engine cannot be reached" in broken.stdout
        try:
            admin.client.post(f"{button.path}/toggle/global")
            admin.client.post(f"{tool.path}/access/update", {"access_grants": []})
            hidden = run_script(*check)
            admin.client.post(f"{button.path}/toggle")
            off = run_script(*check)
        finally:
            install(admin.client, (button, tool))
        assert "active, but not global" in hidden.stdout
        assert "Only administrators may use the Tool" in hidden.stdout
        assert "The Function is switched off" in off.stdout
        titles = [chat["title"] for chat in admin.client.get("/api/v1/chats/")]
        assert "Check of Run code" not in titles

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--api-key", "sk-wrong"], "does not accept this API key"),
            (
                ["--email", "nobody@example.com", "--password", "wrong"],
                "does not accept this e-mail and password",
            ),
            (["--valve", "NO_SUCH=1"], "There is no setting 'NO_SUCH'"),
        ],
    )
    def test_refusal_is_one_sentence(
        self,
        server: OpenWebUIServer,
        admin: Person,
        arguments: list[str],
        sentence: str,
    ) -> None:
        key = [] if "--email" in arguments else ["--api-key", admin.client.token]
        done = run_script("--url", server.url, *key, *arguments)
        assert done.returncode == 1
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr

    def test_ordinary_user_is_refused(
        self, server: OpenWebUIServer, member: Person
    ) -> None:
        done = run_script("--url", server.url, "--api-key", member.client.token)
        assert done.returncode == 1
        assert "not an administrator" in done.stderr

    def test_no_server_is_one_sentence(self) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        done = run_script("--url", url, "--api-key", "sk-any")
        assert done.returncode == 1
        assert f"No Open WebUI answers at {url}" in done.stderr


class TestDemoModel:
    """What scripts/up lets a newcomer talk to."""

    TOOLS: ClassVar = [{"type": "function", "function": {"name": "run_code"}}]

    def test_answers_with_a_block(self) -> None:
        reply = decide({"messages": [user("find primes")]})
        assert "```python\ndef primes" in reply.text

    def test_calls_the_tool_only_when_it_is_offered(self) -> None:
        question = {"messages": [user("use the tool to run bash")]}
        (call,) = decide({**question, "tools": self.TOOLS}).tool_calls
        assert call.name == "run_code"
        assert call.arguments["language"] == "bash"
        assert decide(question).tool_calls == ()

    def test_quotes_the_tool_and_earlier_runs(self) -> None:
        result = {"role": "tool", "content": "has ``` in it"}
        assert "````text\nhas ``` in it\n````" in decide({"messages": [result]}).text
        answer = "```python\nprint(6*7)\n```\n\n```text\n42\n```"
        messages = [
            {"role": "assistant", "content": answer},
            user("what was the output?"),
        ]
        assert "```text\n42\n```" in decide({"messages": messages}).text


class TestProcesses:
    def test_a_stranger_with_the_same_id_is_never_ended(self, tmp_path: Path) -> None:
        ours = launch(
            ["sleep", "60"], env=os.environ, cwd=tmp_path, log=tmp_path / "log"
        )
        try:
            stop(Process(ours.pid, ours.started - 1))
            assert is_running(ours)
        finally:
            stop(ours)
        assert not is_running(ours)


class TestUpScript:
    """What scripts/up says before it does anything that takes long."""

    def test_port_of_another_program(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            done = run_up("--port", port, "--dir", str(tmp_path))
        assert done.returncode == 1
        assert f"Port {port} of 127.0.0.1 is in use by another program" in done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_down_without_up(self, tmp_path: Path) -> None:
        done = run_up("--down", "--dir", str(tmp_path / "never-made"))
        assert done.returncode == 0
        assert "All down." in done.stderr


class TestServer:
    def test_uploaded_file_reaches_the_model(
        self, admin: Person, model: ScriptedModel
    ) -> None:
        item = admin.client.upload_file("notes.csv", b"a,b\n1,2\n", "text/csv")
        admin.client.ask("look", files=[item])
        assert model.sees("notes.csv")
        content = admin.client.download(f"/api/v1/files/{item['id']}/content")
        assert content == b"a,b\n1,2\n"

    def test_crash_and_restart_keep_the_data(
        self, server: OpenWebUIServer, member: Person, model: ScriptedModel
    ) -> None:
        model.script(Reply("I will"))
        chat_id, _ = member.client.ask("remember me")
        before = server.pid
        server.crash()
        server.start({"TZ": "UTC"})
        assert server.pid != before
        assert member.client.message(chat_id)["content"] == "I will"
        environment = Path(f"/proc/{server.pid}/environ").read_bytes()
        assert b"TZ=UTC" in environment.split(b"\0")
