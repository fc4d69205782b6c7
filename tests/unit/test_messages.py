"""The text of a message, whatever its shape."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.messages import message_text


def item(text: str, **more: object) -> dict[str, object]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **more}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "A"}, "A"),
        (
            {"content": [{"type": "text", "text": "A"}, "B", {"type": "image_url"}]},
            "A\nB",
        ),
        ({"content": None}, ""),
        ({}, ""),
        (None, ""),
        ([], ""),
        ("A", ""),
        ({"content": 7}, ""),
        ({"content": [{"type": "text", "text": 7}, 8, None]}, ""),
        ({"content": "A", "output": []}, "A"),
        ({"content": "A", "output": "B"}, "A"),
        ({"content": "old", "output": [item("A"), item("B")]}, "A\nB"),
        (
            {"content": "", "output": [item("secret", type="reasoning"), item("A")]},
            "A",
        ),
        ({"content": "x", "output": [item("secret", type="reasoning")]}, ""),
        ({"output": [item("A"), item("result", id="msg_run_code_00")]}, "A"),
        ({"output": [item("A", id=7), item("B", role="user"), None, 3, {}]}, "A"),
        ({"output": [{"type": "message", "content": "A"}]}, "A"),
    ],
)
def test_p16_message_shapes(message: object, text: str) -> None:
    assert message_text(message) == text


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "output", "text", "id"]),
            inner | st.sampled_from(["message", "text", "assistant"]),
            max_size=4,
        )
    ),
)


@given(ODD)
def test_odd_messages_never_raise(message: object) -> None:
    assert isinstance(message_text(message), str)
