"""The language model of the tests: it answers what the test told it to."""

import re
import threading
from typing import Any

from scripts.bringup.openai_server import (
    OpenAIServer,
    Reply,
    ToolCall,
    last_user_text,
    text_of,
)

__all__ = ["MODEL", "Reply", "ScriptedModel", "ToolCall"]

MODEL = "scripted-model"


class ScriptedModel:
    """Answers the scripted replies in order, then `echo: <question>`.

    After a tool call without a further scripted reply it answers `tool said: <result>`.
    Every request is kept in `requests`, so that a test can see what the model was sent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._script: list[Reply] = []
        self._requests: list[dict[str, Any]] = []
        self._server = OpenAIServer(self._decide, [MODEL])
        self.url = self._server.url

    def start(self) -> None:
        """Serve in the background."""
        self._server.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.stop()

    def script(self, *replies: Reply) -> None:
        """Set the next replies and forget the requests so far."""
        with self._lock:
            self._script = list(replies)
            self._requests = []

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The chat requests since the last `script`, oldest first."""
        with self._lock:
            return list(self._requests)

    def last_messages(self) -> list[dict[str, Any]]:
        """The messages of the newest request."""
        return list(self.requests[-1]["messages"])

    def sees(self, text: str) -> bool:
        """Tell whether `text` is anywhere in what the newest request told the model."""
        return any(text in text_of(m.get("content")) for m in self.last_messages())

    def _decide(self, body: dict[str, Any]) -> Reply:
        with self._lock:
            self._requests.append(body)
            if self._script:
                return self._script.pop(0)
        last = body["messages"][-1]
        if last["role"] == "tool":
            return Reply("tool said: " + text_of(last["content"]))
        return Reply("echo: " + _without_context(last_user_text(body)))


def _without_context(question: str) -> str:
    """Drop the list of attached files that Open WebUI puts around a question."""
    return re.sub(
        r"<attached_files>.*?</attached_files>\s*", "", question, flags=re.DOTALL
    )
