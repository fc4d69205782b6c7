"""Links to files of the work folder, made to lead to the stored files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.sandbox_links import resolve_links, resolve_links_in_items

ADDRESSES = {"a.csv": "/f/1", "data (1).csv": "/f/2", "my file.png": "/f/3"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[x](sandbox:/mnt/data/a.csv)", "[x](/f/1)"),
        ("[x](/mnt/data/a.csv)", "[x](/f/1)"),
        ("![x](sandbox:/mnt/data/my%20file.png)!", "![x](/f/3)!"),
        ("[x](<sandbox:/mnt/data/my file.png>)", "[x](/f/3)"),
        ("[x](sandbox:/mnt/data/my file.png)", "[x](/f/3)"),
        ('[x](sandbox:/mnt/data/a.csv "Title")', '[x](/f/1 "Title")'),
        ("[x](sandbox:/mnt/data/data (1).csv) y (z)", "[x](/f/2) y (z)"),
        (
            "see [x](sandbox:/mnt/data/a.csv), [y](/mnt/data/a.csv)",
            "see [x](/f/1), [y](/f/1)",
        ),
        ("[x](sandbox:/mnt/data/none.csv)", "[x](sandbox:/mnt/data/none.csv)"),
        ("[x](https://e.org/mnt/data/a.csv)", "[x](https://e.org/mnt/data/a.csv)"),
        ("open('/mnt/data/a.csv')", "open('/mnt/data/a.csv')"),
    ],
)
def test_links_of_files_that_exist_are_resolved(before: str, after: str) -> None:
    assert resolve_links(before, ADDRESSES) == after


def test_code_is_left_alone() -> None:
    code = '```python\nprint("[x](sandbox:/mnt/data/a.csv)")\n```\n'
    link = "[x](sandbox:/mnt/data/a.csv)"
    assert resolve_links(code + link, ADDRESSES) == code + "[x](/f/1)"
    longer = f"````md\n```\n{link}\n```\n{link}\n````\n"
    assert resolve_links(longer, ADDRESSES) == longer


@given(st.text("[]()<>`~\n /mntdasbox:.cv", max_size=80))
def test_any_text_is_taken(text: str) -> None:
    assert resolve_links(text, {}) == text
    resolve_links(text + "[x](sandbox:/mnt/data/a.csv)", ADDRESSES)


def test_only_the_text_of_the_answer_is_changed() -> None:
    link = "[x](sandbox:/mnt/data/a.csv)"
    part = {"type": "output_text", "text": link}
    output = [
        {"type": "message", "id": "1", "content": [part]},
        {"type": "message", "id": "msg_run_code_1", "content": [part]},
        {"type": "function_call", "id": "2", "arguments": link},
        "nonsense",
    ]
    changed = resolve_links_in_items(output, ADDRESSES)
    assert changed[0]["content"][0]["text"] == "[x](/f/1)"
    assert changed[1:] == output[1:]
    assert part["text"] == link
    assert resolve_links_in_items(None, ADDRESSES) is None
