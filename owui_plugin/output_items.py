"""The items that we put into a message's ``output`` list. Pure functions on plain lists.

Since 0.12 Open WebUI shows a message's ``output`` (a list of items in the manner of OpenAI's
Responses API), and sends it to the model; ``content`` is ignored by both. An item of ours is
known by its id. Status lines of ours have an extra key, our mark, by which a run that a
restart cut off is found again.
"""

from typing import Any

from owui_plugin.messages import RESULT_ITEM_PREFIX

__all__ = [
    "MARK",
    "ended_mark",
    "has_item",
    "is_result_item",
    "item_id",
    "put_item",
    "running_mark",
    "text_item",
    "unfinished_mark",
]

MARK = "run_code"


def item_id(run_id: str) -> str:
    """The id of the item that shows this run."""
    return RESULT_ITEM_PREFIX + run_id


def is_result_item(item: Any) -> bool:
    """Whether an item of a message is one of ours."""
    return isinstance(item, dict) and str(item.get("id", "")).startswith(
        RESULT_ITEM_PREFIX
    )


def text_item(run_id: str, text: str) -> dict[str, Any]:
    """A message item with Markdown text: what a run came to, or that it goes on."""
    return {
        "type": "message",
        "id": item_id(run_id),
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def running_mark(run_id: str, owner: str, expires_at: float) -> dict[str, Any]:
    """The mark of something unfinished: who works on it, and until when at the latest."""
    return {"state": "running", "run": run_id, "owner": owner, "expires": expires_at}


def ended_mark() -> dict[str, Any]:
    """The mark after which nothing is unfinished."""
    return {"state": "ended"}


def put_item(output: Any, item: dict[str, Any]) -> list[Any]:
    """The list with this item in the place of the one with its id, else at the end."""
    items = list(output) if isinstance(output, list) else []
    for index, entry in enumerate(items):
        if isinstance(entry, dict) and entry.get("id") == item["id"]:
            items[index] = item
            return items
    return [*items, item]


def has_item(output: Any, item: dict[str, Any]) -> bool:
    """Whether the list holds exactly this item."""
    return isinstance(output, list) and item in output


def unfinished_mark(status_history: Any) -> dict[str, Any] | None:
    """Our mark in the last status of a message, if that one is still running."""
    if not isinstance(status_history, list) or not status_history:
        return None
    last = status_history[-1]
    mark = last.get(MARK) if isinstance(last, dict) else None
    if isinstance(mark, dict) and mark.get("state") == "running":
        return mark
    return None
