"""Running code by REST, as the button and the model do it, and what a run leaves behind."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sandbox_core.engines.docker import DockerEngine
from sandbox_core.leases import Lease
from scripts.bringup.plugins import Plugin, plugin_files
from tests.owui.client import ChatClient

__all__ = [
    "BUTTON",
    "FUNCTION",
    "TOOL",
    "answer_item",
    "fenced",
    "press",
    "result_of",
    "run",
    "sandboxes_of",
    "store_answer",
    "valves",
    "wait_until",
]

FUNCTION, TOOL = plugin_files()
BUTTON = "Run code"


def fenced(code: str, tag: str = "python") -> str:
    """An answer with one block."""
    return f"Here you go:\n\n```{tag}\n{code}\n```\n"


def answer_item(text: str) -> dict[str, Any]:
    """An item of a message's ``output``, as Open WebUI makes it of an answer."""
    return {
        "type": "message",
        "id": "msg_of_the_model",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def store_answer(client: ChatClient, text: str) -> tuple[str, str]:
    """A chat whose last message is this answer, as this version of Open WebUI keeps it.

    Returns the ids of chat and message.
    """
    turns = [("user", "please"), ("assistant", text)]
    return client.new_chat(turns, output=[answer_item(text)])


def press(client: ChatClient, chat_id: str, message_id: str) -> dict[str, Any]:
    """Press the button without a browser; returns the message as it is stored then."""
    client.run_action(FUNCTION.id, chat_id, message_id)
    return client.message(chat_id, message_id)


def run(client: ChatClient, code: str, tag: str = "python") -> str:
    """The Markdown of the result of one block."""
    return result_of(press(client, *store_answer(client, fenced(code, tag))))


def result_of(message: dict[str, Any]) -> str:
    """The text of the last item of a message."""
    return str(message["output"][-1]["content"][0]["text"])


@contextmanager
def valves(
    client: ChatClient, *plugins: Plugin, personal: bool = False, **values: Any
) -> Iterator[None]:
    """Set valves of the plugins (both when none is given) and put them back afterwards."""
    kind = "valves/user" if personal else "valves"
    paths = [f"{plugin.path}/{kind}" for plugin in plugins or (FUNCTION, TOOL)]
    before = {path: client.get(path) or {} for path in paths}
    try:
        for path in paths:
            client.post(f"{path}/update", {**before[path], **values})
        yield
    finally:
        for path in paths:
            client.post(f"{path}/update", before[path])


def sandboxes_of(pid: int, docker_host: str) -> Sequence[Lease]:
    """The sandboxes that belong to the process with this id."""
    return [
        lease
        for lease in DockerEngine(docker_host).leftovers()
        if lease.owner.split("/")[1] == str(pid)
    ]


def wait_until(holds: Callable[[], Any], seconds: float, what: str) -> float:
    """Wait until something holds; returns the seconds it took. Fails after ``seconds``."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.1)
    return time.monotonic() - begin
