"""Transcripts: prompted commands run, output does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.blocks import BlockKind, find_blocks


def commands(tag: str, text: str) -> str:
    (block,) = find_blocks(f"````{tag}\n{text}\n````\n")
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
