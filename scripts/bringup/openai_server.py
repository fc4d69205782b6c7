"""A small OpenAI-compatible server whose answers come from a Python function.

Used by scripts/demo_model.py (canned answers) and by the end-to-end tests (scripted
answers). It speaks just enough for Open WebUI: the model list, chat completions with and
without streaming, and embeddings.
"""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["OpenAIServer", "Reply", "ToolCall", "last_user_text", "text_of"]

_CHUNK_CHARACTERS = 40
_EMBEDDING_SIZE = 64


@dataclass(frozen=True)
class ToolCall:
    """One function call the model asks for."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """One answer of the model; `chunk_delay` is in seconds per streamed piece."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    chunk_delay: float = 0.0


def text_of(content: object) -> str:
    """Return the text of a message's content, be it a string or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        return "\n".join(p.get("text", "") for p in parts if p.get("type") == "text")
    return ""


def last_user_text(body: Mapping[str, Any]) -> str:
    """Return the text of the last user message of a chat completion request."""
    for message in reversed(body.get("messages", [])):
        if message.get("role") == "user":
            return text_of(message.get("content"))
    return ""


class OpenAIServer:
    """Serves `decide(request_body) -> Reply` under `/v1` on a loopback port.

    `port=0` takes a free one. `decide` is called from several threads at once.
    """

    def __init__(
        self,
        decide: Callable[[dict[str, Any]], Reply],
        models: Sequence[str],
        port: int = 0,
    ) -> None:
        self._http = _Server(("127.0.0.1", port), _Handler)
        self._http.decide = decide
        self._http.models = tuple(models)

    @property
    def url(self) -> str:
        """Base URL, with `/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def serve_forever(self) -> None:
        """Serve in this thread until `stop` is called from another."""
        self._http.serve_forever(poll_interval=0.1)

    def start(self) -> None:
        """Serve in a background thread."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    decide: Callable[[dict[str, Any]], Reply]
    models: tuple[str, ...]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet: Open WebUI logs every request already."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            self._send_json({"object": "list", "data": _model_list(self.server.models)})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        if self.path == "/v1/chat/completions":
            self._chat(body)
        elif self.path == "/v1/embeddings":
            self._send_json(_embeddings(body))
        else:
            self.send_error(404)

    def _chat(self, body: dict[str, Any]) -> None:
        reply = self.server.decide(body)
        if not body.get("stream"):
            self._send_json(_completion(body, reply))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for chunk in _chunks(body, reply):
                self.wfile.write(b"data: " + chunk + b"\n\n")
                self.wfile.flush()
                time.sleep(reply.chunk_delay)
        except (BrokenPipeError, ConnectionResetError):
            return  # the reader pressed Stop

    def _send_json(self, payload: object) -> None:
        data = json.dumps(payload).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _model_list(models: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": 1, "owned_by": "run-code"}
        for name in models
    ]


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex[:12]}",
        "object": kind,
        "created": int(time.time()),
        "model": body.get("model"),
    }


def _wire_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "id": f"call_{uuid.uuid4().hex[:12]}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(dict(call.arguments)),
            },
        }
        for index, call in enumerate(reply.tool_calls)
    ]


def _completion(body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = _wire_calls(reply)
    reason = "tool_calls" if reply.tool_calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": usage}


def _chunks(body: Mapping[str, Any], reply: Reply) -> Iterator[bytes]:
    head = _head(body, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return json.dumps({**head, "choices": [choice]}).encode()

    yield chunk({"role": "assistant", "content": ""})
    if reply.reasoning:
        yield chunk({"reasoning_content": reply.reasoning})
    for start in range(0, len(reply.text), _CHUNK_CHARACTERS):
        yield chunk({"content": reply.text[start : start + _CHUNK_CHARACTERS]})
    if reply.tool_calls:
        yield chunk({"tool_calls": _wire_calls(reply)})
    yield chunk({}, "tool_calls" if reply.tool_calls else "stop")
    yield b"[DONE]"


def _embeddings(body: Mapping[str, Any]) -> dict[str, Any]:
    """Bag-of-letters vectors: enough for Open WebUI to store an uploaded file."""
    texts = body.get("input", "")
    texts = texts if isinstance(texts, list) else [texts]
    return {
        "object": "list",
        "model": body.get("model"),
        "data": [
            {"object": "embedding", "index": index, "embedding": _vector(str(text))}
            for index, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def _vector(text: str) -> list[float]:
    counts = [1.0] * _EMBEDDING_SIZE
    for letter in text.lower():
        counts[ord(letter) % _EMBEDDING_SIZE] += 1.0
    norm = sum(count * count for count in counts) ** 0.5
    return [count / norm for count in counts]
