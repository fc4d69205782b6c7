"""REST client of Open WebUI that sends what the browser sends."""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from scripts.bringup.rest import OpenWebUI

__all__ = ["ChatClient"]

_EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]


class ChatClient(OpenWebUI):
    """One person using the REST interface; `model` answers the questions."""

    def __init__(self, url: str, token: str = "", model: str = "") -> None:
        super().__init__(url, token)
        self.model = model
        self.function_calling = "native"  # the default from 0.10 on; or "legacy"

    # -- what an administrator does ------------------------------------------------

    def add_user(
        self, name: str, email: str, password: str, role: str = "user"
    ) -> None:
        """Create an account."""
        form = {"name": name, "email": email, "password": password, "role": role}
        self.post("/api/v1/auths/add", form)

    def publish_model(self, model: str) -> None:
        """Let every user see a model of the provider."""
        self._create_model(model, base=None, tool_ids=())

    def add_model(self, name: str, base: str, tool_ids: Sequence[str]) -> None:
        """Create a workspace model for everybody in which these tools are switched on."""
        self._create_model(name, base=base, tool_ids=tool_ids)

    def _create_model(
        self, name: str, *, base: str | None, tool_ids: Sequence[str]
    ) -> None:
        form: dict[str, Any] = {
            "id": name,
            "base_model_id": base,
            "name": name,
            "meta": {"toolIds": list(tool_ids)},
            "params": {},
            "is_active": True,
            "access_grants": _EVERYBODY,
        }
        self.post("/api/v1/models/create", form)
        self.get("/api/models?refresh=true")

    def actions(self) -> list[str]:
        """Ids of the actions that `model` shows under its answers."""
        models = self.get("/api/models?refresh=true")["data"]
        model = next(entry for entry in models if entry["id"] == self.model)
        return [action["id"] for action in model.get("actions", [])]

    # -- chats ---------------------------------------------------------------------

    def chat(self, chat_id: str) -> dict[str, Any]:
        """The stored chat: title, models, history."""
        return dict(self.get(f"/api/v1/chats/{chat_id}")["chat"])

    def message(self, chat_id: str, message_id: str = "") -> dict[str, Any]:
        """One stored message; without an id the newest of the current branch."""
        history = self.chat(chat_id)["history"]
        return dict(history["messages"][message_id or history["currentId"]])

    def new_chat(
        self, turns: Sequence[tuple[str, str]], **answer_fields: object
    ) -> tuple[str, str]:
        """Store a chat of (role, content) turns as an old version or an import would:
        answers without `output` unless given in `answer_fields`, which go to the last turn.

        Returns the ids of the chat and of its last message.
        """
        messages: dict[str, dict[str, Any]] = {}
        parent: str | None = None
        for role, content in turns:
            message = self._message(role, content, parent)
            if parent:
                messages[parent]["childrenIds"].append(message["id"])
            messages[message["id"]] = message
            parent = message["id"]
        assert parent, "a chat needs a message"
        messages[parent].update(answer_fields)
        chat = {
            "title": "Test",
            "models": [self.model],
            "history": {"messages": messages, "currentId": parent},
            "messages": list(messages.values()),
            "params": {},
            "timestamp": int(time.time() * 1000),
        }
        return str(self.post("/api/v1/chats/new", {"chat": chat})["id"]), parent

    def ask(
        self,
        text: str,
        *,
        chat_id: str | None = None,
        tool_ids: Sequence[str] = (),
        files: Sequence[Mapping[str, Any]] = (),
        wait: float = 60.0,
    ) -> tuple[str, dict[str, Any]]:
        """Ask a question and wait at most `wait` seconds for the answer.

        Returns the chat's id and the stored answer. There is no live socket, so dialogs
        of plugins fail at once, as for any other API client.
        """
        chat_id, answer_id = self.start_turn(
            text, chat_id=chat_id, tool_ids=tool_ids, files=files
        )
        return chat_id, self.wait_for_answer(chat_id, answer_id, wait)

    def start_turn(
        self,
        text: str,
        *,
        chat_id: str | None = None,
        tool_ids: Sequence[str] = (),
        files: Sequence[Mapping[str, Any]] = (),
    ) -> tuple[str, str]:
        """Ask without waiting; returns the ids of the chat and of the coming answer."""
        parent = self.chat(chat_id)["history"]["currentId"] if chat_id else None
        question = self._message("user", text, parent)
        answer_id = str(uuid.uuid4())
        body: dict[str, Any] = {
            "stream": True,
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "params": {"function_calling": self.function_calling},
            "features": {},
            "tool_ids": list(tool_ids),
            "session_id": "no-socket",  # any value switches the server's tool loop on
            "id": answer_id,
            "parent_id": parent,
            "user_message": question,
            "background_tasks": {},
        }
        if files:
            question["files"] = [dict(item) for item in files]
            body["files"] = question["files"]
        if chat_id:
            body["chat_id"] = chat_id
        answer = self.post("/api/chat/completions", body)
        return str(answer["chat_id"]), answer_id

    def wait_for_answer(
        self, chat_id: str, message_id: str, wait: float = 60.0
    ) -> dict[str, Any]:
        """Return the message once it is done. Raises TimeoutError after `wait` seconds."""
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            message = self.chat(chat_id)["history"]["messages"].get(message_id, {})
            if message.get("done"):
                return dict(message)
            time.sleep(0.2)
        raise TimeoutError(f"no answer within {wait:.0f} s")

    def stop_answer(self, chat_id: str) -> None:
        """What the Stop button does."""
        self.post(f"/api/tasks/chat/{chat_id}/stop")

    def run_action(
        self, action_id: str, chat_id: str, message_id: str, **extra: object
    ) -> Any:
        """Press an action's button under a message; returns what the action returned."""
        messages = self.chat(chat_id)["history"]["messages"]
        branch: list[dict[str, Any]] = []
        current: str | None = message_id
        while current:
            message = messages[current]
            branch.insert(0, _as_the_browser_sends(message))
            current = message.get("parentId")
        body = {
            "model": self.model,
            "messages": branch,
            "chat_id": chat_id,
            "session_id": "no-socket",
            "id": message_id,
            **extra,
        }
        return self.post(f"/api/chat/actions/{action_id}", body)

    # -- files ---------------------------------------------------------------------

    def upload_file(
        self, name: str, data: bytes, content_type: str = "application/octet-stream"
    ) -> dict[str, Any]:
        """Upload a file without processing and return the item to attach to a question."""
        boundary = uuid.uuid4().hex
        head = (
            f"--{boundary}\r\nContent-Disposition: form-data; "
            f'name="file"; filename="{name}"\r\nContent-Type: {content_type}\r\n\r\n'
        )
        body = head.encode() + data + f"\r\n--{boundary}--\r\n".encode()
        stored = self.upload(
            "/api/v1/files/?process=false",
            body,
            f"multipart/form-data; boundary={boundary}",
        )
        return {
            "type": "file",
            "id": stored["id"],
            "url": stored["id"],
            "name": name,
            "size": len(data),
            "content_type": content_type,
            "status": "uploaded",
            "file": stored,
        }

    def _message(self, role: str, content: str, parent: str | None) -> dict[str, Any]:
        message: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "parentId": parent,
            "childrenIds": [],
            "role": role,
            "content": content,
            "timestamp": int(time.time()),
        }
        if role == "assistant":
            return {**message, "model": self.model, "done": True}
        return {**message, "models": [self.model]}


def _as_the_browser_sends(message: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("id", "role", "content", "info", "timestamp", "sources")
    return {key: message[key] for key in keys if message.get(key)}
