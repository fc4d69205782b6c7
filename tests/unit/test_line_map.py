"""Joining blocks, and finding their lines again."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.blocks import BlockKind, CodeBlock
from owui_plugin.line_map import join_steps, line_notes
from sandbox_core.errors import InvalidRequest
from sandbox_core.models import Step


def python(code: str, number: int) -> CodeBlock:
    return CodeBlock(BlockKind.RUN, "python", "python", code, number=number)


def bash(code: str, number: int) -> CodeBlock:
    return CodeBlock(BlockKind.RUN, "bash", "bash", code, number=number)


def test_neighbours_of_one_language_are_joined() -> None:
    blocks = [
        python("x = 1\n", 1),
        python("\nprint(x)\n", 2),
        bash("ls\n", 3),
        python("y\n", 4),
    ]
    steps, line_map = join_steps(blocks)
    assert steps == (
        Step("python", "x = 1\n\nprint(x)\n"),
        Step("bash", "ls\n"),
        Step("python", "y\n"),
    )
    assert line_map.locate(0, 1) == (1, 1)
    assert line_map.locate(0, 2) == (2, 1)
    assert line_map.locate(0, 3) == (2, 2)
    assert line_map.locate(0, 4) is None
    assert line_map.locate(1, 1) == (3, 1)
    assert line_map.locate(2, 1) == (4, 1)
    assert [line_map.is_joined(step) for step in range(3)] == [True, False, False]


@pytest.mark.parametrize(
    "second", ["'''About.'''\nfrom __future__ import annotations\n", "\n    return x\n"]
)
def test_what_stands_alone_is_a_step(second: str) -> None:
    steps, _ = join_steps([python("def f():\n    x = 1\n", 1), python(second, 2)])
    assert len(steps) == 2
    steps, _ = join_steps([python(second, 1), python("print(1)\n", 2)])
    assert len(steps) == 1


def test_a_block_without_a_language_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        join_steps([CodeBlock(BlockKind.ASK, "", "", "x")])


LINES = st.lists(st.sampled_from(["a", "b = 1", "", "# c"]), min_size=1)


@given(st.lists(st.tuples(st.sampled_from(["python", "bash"]), LINES), min_size=1))
def test_every_line_is_found_again(written: list[tuple[str, list[str]]]) -> None:
    blocks = [
        CodeBlock(BlockKind.RUN, language, "", "\n".join([*lines, ""]), number=number)
        for number, (language, lines) in enumerate(written, 1)
    ]
    steps, line_map = join_steps(blocks)
    assert "".join(step.code for step in steps) == "".join(b.code for b in blocks)
    for index, step in enumerate(steps):
        for line, text in enumerate(step.code.split("\n")[:-1], 1):
            place = line_map.locate(index, line)
            assert place is not None
            assert blocks[place[0] - 1].code.split("\n")[place[1] - 1] == text
    joined = pairwise(steps)
    assert all(one.language != other.language for one, other in joined)


TRACEBACK = """Traceback (most recent call last):
  File "/mnt/data/main.py", line 5, in <module>
    f()
  File "/mnt/data/main.py", line 2, in f
    1 / 0
  File "/usr/lib/python3.11/other.py", line 3, in g
ZeroDivisionError: division by zero
"""


def test_lines_are_told_by_block() -> None:
    steps, line_map = join_steps(
        [python("def f():\n    1 / 0\n\n", 1), python("x\nf()\n", 2)]
    )
    assert line_notes(TRACEBACK, steps, line_map, 0) == (
        "Line 5 of main.py is line 2 of block 2.",
        "Line 2 of main.py is line 2 of block 1.",
    )


def test_few_notes_and_none_for_a_block_alone() -> None:
    steps, line_map = join_steps([python("x\n" * 10, 1), python("y\n" * 10, 2)])
    many = "".join(f'  File "/w/main.py", line {n}\n' for n in (1, 1, 12, 13, 14, 99))
    assert line_notes(many, steps, line_map, 0) == (
        "Line 12 of main.py is line 2 of block 2.",
        "Line 13 of main.py is line 3 of block 2.",
        "Line 14 of main.py is line 4 of block 2.",
    )
    steps, line_map = join_steps([python("x\n" * 10, 1)])
    assert line_notes(many, steps, line_map, 0) == ()
