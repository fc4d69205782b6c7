"""Finding the code in messages, and which of it runs."""

import sys
import time
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

MESSAGES = Path(__file__).parent / "data" / "messages"


def blocks_of(name: str) -> list[CodeBlock]:
    return find_blocks((MESSAGES / name).read_bytes().decode())


def codes_of(name: str) -> list[str]:
    return [block.code for block in runnable(blocks_of(name))]


def only(markdown: str) -> CodeBlock:
    (block,) = find_blocks(markdown)
    return block


def python(code: str) -> CodeBlock:
    return CodeBlock(BlockKind.RUN, "python", "python", code)


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
        ("#!/usr/bin/perl\nprint 1", "run", "perl"),
        ("#!/usr/bin/awk -f\n1", "no", ""),
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


# No code that starts with ">>>": that is a transcript, of which only the commands run.
CODE = st.text(st.sampled_from("ab `~<>$#\t é\n"), min_size=1).filter(
    lambda code: code.strip() and not code.lstrip().startswith(">>>")
)


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
