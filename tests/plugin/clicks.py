"""Presses the button in a temporary chat: Open WebUI stores nothing of it, so it need not
be there, and everything that a browser would get is returned."""

import asyncio
from typing import Any, NamedTuple

__all__ = ["Pressed", "press", "press_body"]


class Pressed(NamedTuple):
    """``text``: what is put under the answer. ``statuses`` and ``notices``: in words."""

    text: str
    statuses: list[str]
    notices: list[str]
    answer: Any


def press(action: Any, markdown: Any, **more: Any) -> Pressed:
    """Press under a message with this content; ``more`` as press_body."""
    message = {"id": "m", "role": "assistant", "content": markdown}
    return press_body(action, {"messages": [message]}, **more)


def press_body(
    action: Any,
    body: dict[str, Any],
    user: dict[str, Any] | None = None,
    call: Any = None,
) -> Pressed:
    """Press with this body. ``call`` answers the dialogs; without it there is no page."""
    events: list[dict[str, Any]] = []

    async def emit(event: dict[str, Any]) -> None:
        events.append(event)

    whole = {"chat_id": "temporary:1", "id": "m", **body}
    answer = asyncio.run(
        action.action(whole, __user__=user, __event_emitter__=emit, __event_call__=call)
    )
    statuses = [event["data"] for event in events if event["type"] == "status"]
    assert [status["done"] for status in statuses[-1:]] in ([], [True])
    assert len(statuses) <= 3
    text = ""
    if answer:
        (message,) = answer["messages"]
        assert message["id"] == "m"
        before = next(
            (
                m.get("content")
                for m in body.get("messages") or []
                if m.get("id") == "m"
            ),
            "",
        )
        text = message["content"]
        if isinstance(before, str):
            text = text.removeprefix(before)
    return Pressed(
        text,
        [status["description"] for status in statuses],
        [e["data"]["content"] for e in events if e["type"] == "notification"],
        answer,
    )


def _appended(answer: dict[str, Any], before: Any) -> str:
    """What the answer of the action adds to the message."""
    (message,) = answer["messages"]
    assert message["id"] == "m"
    if isinstance(before, list):
        before = before[0]["text"]
    assert message["content"].startswith(before)
    return str(message["content"].removeprefix(before))
