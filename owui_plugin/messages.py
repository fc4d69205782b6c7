"""The model's own text in a stored or posted chat message, whatever its shape."""

from typing import Any

__all__ = ["RESULT_ITEM_PREFIX", "message_text"]

# Ids of the items that hold our results in a message's `output` list begin so.
RESULT_ITEM_PREFIX = "msg_run_code_"


def message_text(message: Any) -> str:
    """The text that may hold code to run; empty when there is none. Takes anything.

    A message with ``output`` items is what they say: the assistant's message items, without
    reasoning, tool calls and our own results. Else ``content`` counts: a string, or parts.
    """
    if not isinstance(message, dict):
        return ""
    output = message.get("output")
    if isinstance(output, list) and output:
        texts = [
            _parts_text(item.get("content")) for item in output if _is_answer(item)
        ]
        return "\n".join(text for text in texts if text)
    return _parts_text(message.get("content"))


def _is_answer(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.get("type") == "message"
        and item.get("role", "assistant") == "assistant"
        and not str(item.get("id", "")).startswith(RESULT_ITEM_PREFIX)
    )


def _parts_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (
        part if isinstance(part, str) else part.get("text")
        for part in content
        if isinstance(part, str)
        or (isinstance(part, dict) and part.get("type") in ("text", "output_text"))
    )
    return "\n".join(text for text in texts if isinstance(text, str))
