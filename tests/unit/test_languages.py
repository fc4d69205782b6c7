"""Language records: words, files, prompts, references."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.errors import InvalidRequest
from sandbox_core.language import Language
from sandbox_core.languages import (
    LANGUAGES,
    find_interpreter,
    find_language,
    find_transcript,
    language_named,
)

PYTHON, BASH, JAVASCRIPT = (language_named(n) for n in ("python", "bash", "javascript"))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("python", "python"),
        (" PyThon ", "python"),
        ("python3.12", "python"),
        ("py3", "python"),
        ("ipython3", "python"),
        ("sh", "bash"),
        ("ZSH", "bash"),
        ("node18", "javascript"),
        ("mjs", "javascript"),
        ("c++17", "cpp"),
        ("C99", "c"),
        ("golang", "go"),
        ("c#", None),
        ("pythonic", None),
        ("python-3", None),
        ("shellcheck", None),
        ("console", None),
        ("", None),
        ("3", None),
    ],
)
def test_words(word: str, name: str | None) -> None:
    language = find_language(word)
    assert (language.name if language else None) == name


def test_an_unknown_language_is_refused_with_what_there_is() -> None:
    assert language_named("JS") is JAVASCRIPT
    with pytest.raises(
        InvalidRequest, match=r"“cobol” here\. Use one of: python, bash"
    ):
        language_named("cobol")


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#!/usr/bin/env python3\nx", PYTHON),
        ("#!/usr/bin/env -S python3 -u", PYTHON),
        ("#!/usr/bin/env A=1 python3.11", PYTHON),
        ("#! /bin/sh -e", BASH),
        ("#!/usr/local/bin/node", JAVASCRIPT),
        ("#!python3", PYTHON),
        ("#!/usr/bin/awk", None),
        ("#!/usr/bin/env", None),
        ("#!", None),
        ("#!\npython3", None),
        ("\n#!/bin/sh", None),
        ("python3", None),
    ],
)
def test_interpreter_lines(line: str, language: Language | None) -> None:
    assert find_interpreter(line) is language


@given(st.text())
def test_any_text_may_be_asked_about(text: str) -> None:
    find_language(text)
    find_transcript(text)
    find_interpreter(f"#!{text}")


def test_no_word_means_two_things() -> None:
    words = [word for entry in LANGUAGES for word in (entry.name, *entry.aliases)]
    words += [word for entry in LANGUAGES for word in entry.transcripts]
    assert len(words) == len(set(words))
    assert all(word == word.lower() for word in words)
    assert find_transcript("Console") is BASH
    assert find_transcript("pycon") is PYTHON
    assert find_transcript("python") is None


def test_records_are_complete() -> None:
    files = [entry.file_name for entry in LANGUAGES]
    assert len(files) == len(set(files))
    for entry in LANGUAGES:
        assert entry.argv
        assert entry.version_argv
        assert entry.image.startswith("run-code-")
        assert not (entry.compile_argv and entry.joins and entry.name != "typescript")
        assert entry.self_test.code.endswith("\n")
        assert entry.self_test.expected_stdout
        assert (
            bool(entry.prompts) == bool(entry.transcripts) == bool(entry.continuation)
        )
        for pattern in (entry.prompts, entry.continuation, entry.line_reference):
            assert not pattern or re.compile(pattern).groups == 1


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("console.log(1)\n", "main.js"),
        ("import fs from 'fs'\n", "main.mjs"),
        ("import {a} from 'b'\n", "main.mjs"),
        ("import 'x'\n", "main.mjs"),
        ("import{a} from 'b'\n", "main.mjs"),
        ("x()\nexport default 1\n", "main.mjs"),
        ("const x = await y()\n", "main.mjs"),
        ("await y()\n", "main.mjs"),
        ("for await (const x of y) {}\n", "main.mjs"),
        ("const fs = require('fs')\nasync function f() {\n  await x()\n}\n", "main.js"),
        ("const f = async () => {\n  const a = await b()\n}\n", "main.js"),
        ("const x = import('y')\n", "main.js"),
        ("important()\n", "main.js"),
    ],
)
def test_javascript_files(code: str, name: str) -> None:
    assert JAVASCRIPT.file_for(code) == name


JAVA = language_named("java")
SEVERAL = """package com.example.demo;

record Pair(int a, int b) {}

class Helper {
    static void help() {}
}

public final class Demo {
    static class Inner {}

    public static void main(String... args) {}
}
"""


@pytest.mark.parametrize(
    ("code", "name", "entry"),
    [
        (SEVERAL, "Demo.java", "com.example.demo.Demo"),
        (
            "class A {}\nclass B {\n  static void main(String[] a) {}\n}\n",
            "main.java",
            "B",
        ),
        ("public record Point(int x) {}\n", "Point.java", "Point"),
        ("class Only {}\n", "main.java", "Only"),
        ("nothing\n", "main.java", ""),
    ],
)
def test_java_files_and_classes(code: str, name: str, entry: str) -> None:
    assert JAVA.file_for(code) == name
    command = JAVA.command_for(code, "/work/x.java", "/build")
    assert command.argv[-3:] == ("-cp", "/build", entry)
    assert command.compile_argv[-2:] == ("/build", "/work/x.java")
    assert command.needs == "javac"


@pytest.mark.parametrize(
    ("word", "code", "name", "program"),
    [
        ("ts", "import * as fs from 'fs'\n", "main.ts", "/b/main.cjs"),
        ("ts", "const x: number = await y()\n", "main.mts", "/b/main.mjs"),
        ("ts", "console.log(import.meta.url)\n", "main.mts", "/b/main.mjs"),
        ("php", "<?php\necho 1;\n", "main.php", "/s"),
        ("c++", "int main() {}\n", "main.cpp", "/b/main"),
        ("py", "print(1)\n", "main.py", "/s"),
    ],
)
def test_files_and_commands(word: str, code: str, name: str, program: str) -> None:
    language = language_named(word)
    assert language.file_for(code) == name
    command = language.command_for(code, "/s", "/b")
    assert command.argv[-1] == program
    assert bool(command.compile_argv) == (program != "/s")
    assert "{" not in "".join((*command.argv, *command.compile_argv))


def test_php_without_a_tag_is_code_all_the_same() -> None:
    php = language_named("php")
    assert php.file_for("echo 1;\n") == "main.php"
    assert php.command_for("echo 1;\n", "/s", "/b").argv[1] == "-r"
    assert php.command_for("<p>\n<?= 1 ?>\n", "/s", "/b").argv == ("php", "/s")


def test_other_files() -> None:
    assert PYTHON.file_for("import x\n") == "main.py"
    assert BASH.file_for("await x\n") == "main.sh"


@pytest.mark.parametrize(
    ("language", "line", "number"),
    [
        (PYTHON, '  File "/mnt/data/main.py", line 17, in <module>', "17"),
        (PYTHON, '  File "/usr/lib/python3.11/json/decoder.py", line 3', None),
        (BASH, "/mnt/data/main.sh: line 4: figlet: command not found", "4"),
        (JAVASCRIPT, "/mnt/data/main.js:12", "12"),
        (language_named("c"), "/mnt/data/main.c:3:5: error: x", "3"),
        (language_named("java"), "/mnt/data/Demo.java:7: error: ';' expected", "7"),
        (language_named("sql"), "Error: near line 3: no such table: t", "3"),
        (JAVASCRIPT, "    at file:///mnt/data/main.mjs:3:7", "3"),
    ],
)
def test_line_references(language: Language, line: str, number: str | None) -> None:
    found = re.search(language.line_reference, line)
    assert (found[1] if found else None) == number


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("$ ls", "ls"),
        ("$", None),
        ("$  x", " x"),
        ("me@box:~$ ls", "ls"),
        ("me@box:/var/log$ ls", "ls"),
        ("root@box:~# id", "id"),
        ("(base) me@box:~$ ls", "ls"),
        ("[root@box ~]# id", "id"),
        ("me@mac ~ % ls", "ls"),
        ("bash-5.2$ ls", "ls"),
    ],
)
def test_shell_prompts(line: str, command: str | None) -> None:
    found = re.match(BASH.prompts, line)
    assert found
    assert found[1] == command


@pytest.mark.parametrize(
    "line",
    [
        "# ls",
        "ls",
        "$ls",
        " $ ls",
        "50% of it",
        "% x",
        "> x",
        "a@b.c: 5% x",
        "a@b.c",
        "#",
    ],
)
def test_not_shell_prompts(line: str) -> None:
    assert not re.match(BASH.prompts, line)
