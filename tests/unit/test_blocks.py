"""Finding code in messages, transcripts, joining, and the shapes of messages."""

import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.blocks import (
    BlockKind,
    CodeBlock,
    MissingPackage,
    blocks_label,
    find_blocks,
    is_install,
    runnable,
    why_nothing_runs,
)
from owui_plugin.line_map import join_steps, line_notes
from owui_plugin.messages import message_text
from sandbox_core.errors import InvalidRequest
from sandbox_core.models import Step

MESSAGES = Path(__file__).parent / "data" / "messages"


def blocks_of(name: str) -> list[CodeBlock]:
    return find_blocks((MESSAGES / name).read_bytes().decode())


def codes_of(name: str) -> list[str]:
    return [block.code for block in runnable(blocks_of(name))]


def only(markdown: str) -> CodeBlock:
    (block,) = find_blocks(markdown)
    return block


def python(code: str, number: int = 1) -> CodeBlock:
    return CodeBlock(BlockKind.RUN, "python", "python", code, number=number)


def bash(code: str, number: int = 1) -> CodeBlock:
    return CodeBlock(BlockKind.RUN, "bash", "bash", code, number=number)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("two-python.md", ["print('one')\n", "print('two')\n"]),
        (
            "install-then-python.md",
            ["pip install cowsay\n", "import cowsay\ncowsay.cow('hello')\n"],
        ),
        (
            "four-backticks.md",
            ['page = """\n```html\n<p>hi</p>\n```\n"""\nprint(page.count("\\n"))\n'],
        ),
        ("tilde.md", ["print('wave')\n"]),
        ("in-a-list.md", ["def seven():\n    return 7\nprint(seven())\n"]),
        ("tabs-in-a-bullet.md", ["print('tab')\n"]),
        ("unclosed.md", ["for n in range(3):\n    print(n)\n"]),
        ("crlf.md", ["if true; then\n  echo yes\nfi\n"]),
        ("inline.md", []),
        ("records.md", ['print("answer")\n']),
        (
            "record-in-code.md",
            ['print("""\n<details type="reasoning">\n""")\n', 'print("second")\n'],
        ),
        ("unclosed-record.md", ['print("before")\n']),
        ("plain-details.md", ['print("folded")\n']),
        ("quotes-and-comments.md", []),
    ],
)
def test_what_runs(name: str, codes: list[str]) -> None:
    assert codes_of(name) == codes


def test_the_crlf_message_is_one() -> None:
    assert b"\r\n```bash\r\n" in (MESSAGES / "crlf.md").read_bytes()


def test_p01_blocks_are_numbered() -> None:
    blocks = blocks_of("two-python.md")
    assert [block.number for block in blocks] == [1, 2]
    assert blocks_label([blocks[1]], 2) == "block 2 of 2, python"
    assert blocks_label(blocks, 2) == "blocks 1–2 of 2, python"
    assert blocks_label([blocks[0]], 1) == "Python"


def test_blocks_that_cannot_run_do_not_count() -> None:
    markdown = "```json\n{}\n```\n```\nout\n```\n```python\n1\n```\n```sh\n2\n```\n"
    kinds = [(str(block.kind), block.number) for block in find_blocks(markdown)]
    assert kinds == [("no", 1), ("ask", 1), ("run", 1), ("run", 2)]
    assert blocks_label(runnable(find_blocks(markdown)), 2) == (
        "blocks 1–2 of 2, python, bash"
    )


def test_p09_unclosed_is_told() -> None:
    assert [block.closed for block in blocks_of("unclosed.md")] == [False]
    assert [block.closed for block in blocks_of("two-python.md")] == [True, True]
    assert not only("```python\nprint(1)").closed
    assert not only("- x\n  ```python\n  print(1)\n\nafter").closed
    assert only("```python\nprint(1)\n```").closed
    assert only("```python\n```").closed


PYTHON_TAGS = [
    "python",
    "Python",
    "PYTHON3",
    "py",
    "python3.12",
    "ipython",
    'python title="main.py"',
    "python:main.py",
    "python,linenos",
    "{.python .numberLines}",
    "{#first .python}",
    "{python}",
    "python {cmd=true}",
    "  python  ",
]
OTHER_TAGS = ["json", "yaml", "text", "diff", "html", "mermaid", "output", "pythonic"]
OTHER_TAGS += [
    "shellcheck",
    "c",
    "c++",
    "c#",
    "py-spy",
    "main.py",
    "{.json}",
    "...",
    "{}",
]


@pytest.mark.parametrize("info", PYTHON_TAGS)
def test_p10_python_tags(info: str) -> None:
    block = only(f"```{info}\nprint(1)\n```\n")
    assert (block.kind, block.language) == (BlockKind.RUN, "python")


@pytest.mark.parametrize("info", ["bash", "sh", "shell", "zsh", "Bash", "bash -e"])
def test_p10_bash_tags(info: str) -> None:
    block = only(f"```{info}\necho 1\n```\n")
    assert (block.kind, block.language) == (BlockKind.RUN, "bash")


@pytest.mark.parametrize("info", OTHER_TAGS)
def test_p10_other_tags(info: str) -> None:
    block = only(f"```{info}\nprint(1)\n```\n")
    assert (block.kind, block.language) == (BlockKind.NO, "")
    sentence = why_nothing_runs([block])
    assert "python" in sentence
    assert "console" in sentence


@pytest.mark.parametrize(
    ("code", "kind", "language"),
    [
        ("print(1)", "ask", ""),
        ("#!/usr/bin/env python3\nprint(1)", "run", "python"),
        ("#!/bin/sh -e\necho 1", "run", "bash"),
        ("#!/usr/bin/perl\nprint 1", "no", ""),
        ("", "no", ""),
        ("\n  \n", "no", ""),
    ],
)
def test_p10_no_tag(code: str, kind: str, language: str) -> None:
    block = only(f"```\n{code}\n```\n")
    assert (str(block.kind), block.language) == (kind, language)


def test_an_asked_block_runs_in_the_language_picked() -> None:
    block = only("```\necho 1\n```").in_language("bash")
    assert (block.kind, block.language, block.number) == (BlockKind.RUN, "bash", 1)


def test_why_nothing_runs() -> None:
    assert "no code block" in why_nothing_runs([])
    block = only("```console\nplain\n```\n")
    assert "“console” block only lines with a prompt are run" in why_nothing_runs(
        [block]
    )


def test_the_first_line_is_short_and_harmless() -> None:
    assert python("\n\n  x = 1\ny = 2\n").first_line() == "x = 1"
    assert python("a\u202eb").first_line() == "a\\u202eb"
    assert python("x" * 200).first_line() == "x" * 59 + "…"
    assert python("").first_line() == ""


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(MissingPackage, match="markdown-it-py is missing"):
        find_blocks("x")


def commands(tag: str, text: str) -> str:
    block = only(f"````{tag}\n{text}\n````\n")
    return block.code if block.kind is BlockKind.RUN else ""


@pytest.mark.parametrize(
    ("tag", "text", "program"),
    [
        ("console", "$ echo 1\n1\n$ echo 2\n2", "echo 1\n\necho 2\n"),
        ("shell-session", "me@box:~/src$ ls -l\ntotal 0", "ls -l\n"),
        ("console", "root@box:/# id\nuid=0", "id\n"),
        ("console", "[me@box src]$ pwd", "pwd\n"),
        ("console", "me@mac src % pwd", "pwd\n"),
        ("console", "(venv) $ pip list", "pip list\n"),
        ("console", "sh-5.1# id", "id\n"),
        ("console", "# rm -rf everything\n$ ls", "\nls\n"),
        ("console", "# a comment\nfoo@example.org: 50% of it", ""),
        ("console", "ls\nfile", ""),
        ("console", "$\n$ ", ""),
        (
            "console",
            "$ for i in 1 2; do\n> echo $i\n> done\n1\n2",
            "for i in 1 2; do\necho $i\ndone\n",
        ),
        ("console", "$ echo a \\\n    b\na b", "echo a \\\n    b\n"),
        ("console", "$ echo 'a\\\\'\na", "echo 'a\\\\'\n"),
        ("console", "$ npm run x\n\n> x@1.0\n> tsc\ndone", "npm run x\n"),
        (
            "console",
            "$ cat <<EOF > f\nline $HOME\n> quoted\nEOF\n$ cat f\nline",
            "cat <<EOF > f\nline $HOME\n> quoted\nEOF\ncat f\n",
        ),
        (
            "console",
            "$ cat <<-'END'\n> a\n> \tEND\na\n$ ls",
            "cat <<-'END'\na\n\tEND\n\nls\n",
        ),
        ("console", "$ cat <<EOF\nlost\n$ ls\nEOF", "cat <<EOF\n\nls\n"),
        ("console", "$ cat <<< word\nword", "cat <<< word\n"),
        (
            "pycon",
            ">>> for i in range(2):\n...     print(i)\n...\n0\n1\n>>> i\n1",
            "for i in range(2):\n    print(i)\n\n\n\ni\n",
        ),
        ("pycon", "print(1)", ""),
        ("python", ">>> print(1)\n1", "print(1)\n"),
        ("python", "x = 1\n>>> x", "x = 1\n>>> x\n"),
        ("bash", "$ ls\nfile", "ls\n"),
        ("bash", "# comment\nls", "# comment\nls\n"),
        ("javascript", "> 1 + 1\n2", "> 1 + 1\n2\n"),
    ],
)
def test_p11_only_prompted_lines_run(tag: str, text: str, program: str) -> None:
    assert commands(tag, text) == program


TRANSCRIPT_LINES = st.sampled_from(
    ["$ ls", "$ cat <<E", "E", "> x", "out", "", "$ a \\", "# c", ">", "a@b:~$ id", "$"]
)


@given(st.lists(TRANSCRIPT_LINES))
def test_transcripts_keep_their_line_numbers(lines: list[str]) -> None:
    program = commands("console", "\n".join(lines)).split("\n")
    for index, line in enumerate(lines):
        if line in ("$ ls", "a@b:~$ id", "# c"):
            command = {"$ ls": "ls", "a@b:~$ id": "id"}.get(line, "")
            here = program[index] if index < len(program) else ""
            assert here in (command, line)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    for block in find_blocks(text):
        assert block.number >= 1
        block.first_line()


FENCED = st.lists(
    st.sampled_from(
        [
            "```python",
            "```",
            "~~~",
            "````",
            "print(1)",
            "- a",
            "  b",
            "\tc",
            "> q",
            "<details>",
            '<details type="reasoning">',
            "</details>",
            "<!--",
            "-->",
            "",
        ]
    )
).map("\n".join)


@given(FENCED)
def test_any_heap_of_markup_is_read(text: str) -> None:
    find_blocks(text)


CODE = st.text(st.sampled_from("ab `~<>$#\t é\n"), min_size=1).filter(str.strip)


@given(CODE, st.sampled_from("`~"))
def test_a_fence_longer_than_all_others_holds_its_code(code: str, mark: str) -> None:
    fence = mark * (len(code) + 3)
    (block,) = runnable(find_blocks(f"text\n\n{fence}python\n{code}\n{fence}\n"))
    assert block.code == f"{code}\n"
    assert block.closed


@given(FENCED)
def test_p13_nothing_in_an_open_record_runs(inside: str) -> None:
    text = f'Hm.\n\n<details type="tool_calls" name="x">\n{inside.replace("</", "")}'
    assert not find_blocks(text)


@given(FENCED)
def test_p13_what_follows_a_record_runs(inside: str) -> None:
    inside = inside.replace("details", "p")
    record = f'<details type="reasoning">\n<summary>x</summary>\n{inside}\n</details>'
    (block,) = runnable(find_blocks(f"{record}\n```python\nprint(2)\n```\n"))
    assert block.code == "print(2)\n"


@given(FENCED)
def test_nothing_in_a_quote_runs(inside: str) -> None:
    quoted = "\n".join(f"> {line}" for line in inside.split("\n"))
    assert not runnable(find_blocks(quoted))


@pytest.mark.parametrize(
    "tag",
    [
        '<details type="reasoning">',
        "<details type='reasoning' done>",
        '<DETAILS done="true" TYPE="reasoning">',
        '<details title="a > b" type="reasoning">',
        "<details\ntype=reasoning\n>",
        '<details type="reasoning" title="half open>',
    ],
)
def test_p13_record_tags(tag: str) -> None:
    text = f"{tag}\n\n```python\n1\n```\n\n</details>\n\n```python\n2\n```\n"
    assert [block.code for block in find_blocks(text)] == ["2\n"]


def test_a_record_in_a_list_hides_its_code() -> None:
    text = (
        '- x\n\n  <details type="reasoning">\n\n  ```python\n  1\n  ```\n  </details>\n'
    )
    assert not find_blocks(text)


def test_a_tag_in_a_sentence_hides_nothing() -> None:
    text = 'It writes `<details type="reasoning">` there.\n\n```python\n1\n```\n'
    assert codes_in(text) == ["1\n"]


def codes_in(markdown: str) -> list[str]:
    return [block.code for block in runnable(find_blocks(markdown))]


def test_long_messages_are_read_in_time() -> None:
    record = '<details type="tool_calls" result="' + "x" * 2000 + '">\n</details>\n'
    texts = [
        (record + "\n```python\nprint(1)\n```\n") * 250,
        '```python\n<details type="x">\n' * 5000,
        '<details type="x">\n' * 5000,
        "`" * 50_000,
        "> " * 10_000,
        "- " * 10_000,
        "**Run code** · \n" * 5000,
        "**Run code** · x\n" + "\n" * 50_000,
        "**Run code** · x\n" + "\n```text\nx" * 5000,
        "<details " + "'" * 20_000,
    ]
    for text in texts:
        start = time.monotonic()
        find_blocks(text)
        assert time.monotonic() - start < 10, text[:40]


@pytest.mark.parametrize(
    ("code", "language", "expected"),
    [
        ("pip install cowsay\n", "bash", True),
        ("# first\nsudo pip3 install -U a b\n\npython3 -m pip install c", "bash", True),
        ("pip install \\\n  a \\\n  b\n", "bash", True),
        ("npm i left-pad && npm install", "bash", True),
        ("apt-get update && apt-get install -y figlet", "bash", True),
        ("!pip install a", "python", True),
        ("%pip install a", "python", True),
        ("pip install a\npython x.py", "bash", False),
        ("pip install a; ls", "bash", False),
        ("pip list", "bash", False),
        ("echo pip install a", "bash", False),
        ("# nothing", "bash", False),
        ("pip installer", "bash", False),
    ],
)
def test_p02_install_blocks(code: str, language: str, expected: bool) -> None:
    block = CodeBlock(BlockKind.RUN, language, language, code)
    assert is_install(block) is expected


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
