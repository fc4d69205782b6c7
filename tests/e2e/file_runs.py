"""Runs in chats with files: what the tests of files have in common."""

import re
from typing import Any

from tests.e2e.runs import FUNCTION, fenced, result_of, wait_until
from tests.owui.client import ChatClient
from tests.owui.scripted_model import Reply, ScriptedModel, ToolCall

__all__ = ["LINK", "call", "plain", "run_in", "told_by_tool", "wait_for_files"]

LINK = re.compile(r"\]\((/api/v1/files/[\w-]+/content\?attachment=true)\)")


def call(code: str) -> Reply:
    """The model asks for a run."""
    return Reply(tool_calls=(ToolCall("run_code", {"code": code}),))


def run_in(
    client: ChatClient, model: ScriptedModel, code: str, **more: Any
) -> tuple[str, str]:
    """Ask, get this code as the answer, press the button. Returns the chat and the result."""
    model.script(Reply(fenced(code)))
    chat_id, answer = client.ask("do it", **more)
    client.run_action(FUNCTION.id, chat_id, answer["id"])
    return chat_id, result_of(client.message(chat_id))


def wait_for_files(client: ChatClient, chat_id: str, name: str) -> str:
    """What is put under an answer once its turn is over."""

    def shown() -> bool:
        last = client.message(chat_id)["output"][-1]
        return last["type"] == "message" and name in last["content"][0]["text"]

    wait_until(shown, 20, f"{name} is shown")
    return result_of(client.message(chat_id))


def told_by_tool(model: ScriptedModel) -> list[str]:
    """What the model was told after each of its calls."""
    return [str(m["content"]) for m in model.last_messages() if m["role"] == "tool"]


def plain(markdown: str) -> str:
    """Markdown without the backslashes of escaping."""
    return markdown.replace("\\", "")
