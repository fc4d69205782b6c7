"""The tool's answers to a model, from its source and from the generated file."""

import asyncio
import os
import re

import pytest

AWK = """
[awk]
title = "AWK"
aliases = ["gawk"]
file_name = "main.awk"
run = ["awk", "-f", "{source}"]
version = ["awk", "-W", "version"]
line_reference = "main.awk: line {line}"
self_test = { code = "BEGIN { print 6 * 7 }", expected_stdout = "42\\n" }
"""


def described(tools):
    """The description of run_code, as Open WebUI shows it to a model."""
    return tools.run_code.__doc__


def call(tools, code, *, chat="temporary:1", user=None, **more):
    """(what the model is told, what the person sees) of one call."""
    events = []

    async def emit(event):
        events.append(event)

    text = asyncio.run(
        tools.run_code(
            code, __user__=user, __chat_id__=chat, __event_emitter__=emit, **more
        )
    )
    assert isinstance(text, str)
    assert events[-1]["data"]["done"]
    return text, [event["data"]["description"] for event in events]


def test_a_result(tools):
    text, statuses = call(tools, "print(2)\n1 + 2")
    assert re.fullmatch(
        r"outcome: ok\nexit_code: 0\nseconds: .*\nstdout:\n2\nvalue:\n3\n", text
    )
    assert statuses[0] == "Running Python…"
    assert re.fullmatch(r"Ran Python · \d\.\d s", statuses[1])


def test_a_failure_is_no_failed_call(tools):
    text, statuses = call(tools, "print('out')\nimport sys\nsys.exit('why')")
    assert text.startswith("outcome: failed\nexit_code: 1\n")
    assert "stdout:\nout\n" in text
    assert "stderr:\nwhy\n" in text
    assert statuses[-1] == "The program failed with exit code 1."


def test_stdin_and_languages(tools):
    assert "stdout:\nin!\n" in call(tools, "print(input() + '!')", stdin="in\n")[0]
    assert "stdout:\n5\n" in call(tools, "echo $((2+3))", language="Shell")[0]
    assert "stdout:\n6\n" in call(tools, "console.log(2*3)", language="node")[0]


@pytest.mark.parametrize("code", ["", " \n", None])
def test_no_code(tools, code):
    text, statuses = call(tools, code)
    assert "outcome: not_run\nmessage: There is no code to run" in text
    assert statuses[0].startswith("There is no code to run")


def test_an_unknown_language_names_those_that_there_are(tools):
    text, _ = call(tools, "x", language="cobol")
    assert text.startswith("outcome: not_run\nmessage: ")
    assert "python" in text
    assert "bash" in text


def test_the_third_equal_failure_is_refused_in_its_chat_alone(tools):
    code = "raise SystemExit(3)"
    outcomes = [call(tools, code)[0].partition("\n")[0] for _ in range(3)]
    assert outcomes == ["outcome: failed", "outcome: failed", "outcome: not_run"]
    assert call(tools, code, chat="temporary:2")[0].startswith("outcome: failed")


def test_the_description_is_true(tools):
    tools.valves = tools.Valves(timeout_seconds=3, memory_mb=99, model_output_kb=5)
    text = tools.run_code.__doc__
    assert "at most 3 s, 99 MB memory" in text
    assert "at most 5 KB" in text
    assert {f":param {name}:" in text for name in ("code", "language", "stdin")} == {
        True
    }
    slow, _ = call(tools, "import time; time.sleep(9)")
    assert "stopped after 3 s" in slow
    long, _ = call(tools, "print('x' * 99999)")
    assert len(long.encode()) <= 5 * 1024


def test_the_packages_it_names_are_in_the_image(tools):
    tools.valves = tools.Valves()
    named = re.search(r"Python has ([^.]*)\.", tools.run_code.__doc__)[1]
    names = [name.strip() for name in re.split(r",|\sand\s", named)]
    modules = {
        "scikit-learn": "sklearn",
        "pillow": "PIL",
        "beautifulsoup4": "bs4",
        "python-docx": "docx",
        "python-pptx": "pptx",
    }
    imports = ", ".join(modules.get(name, name) for name in names)
    text, _ = call(tools, f"import {imports}\nprint('all')")
    assert "stdout:\nall\n" in text


def test_what_there_is_can_be_listed(tools):
    def ask(method, **given):
        return asyncio.run(method(__user__={"id": "u"}, __chat_id__="c", **given))

    packages = ask(tools.list_packages)
    assert re.match(r"Python 3\.\d+\.\d+, (\d+) of \1 packages:\n", packages)
    assert "\nnumpy " in packages
    few = ask(tools.list_packages, filter="Scikit_learn, nothing-like-it")
    assert re.fullmatch(r"Python \S+, 1 of \d+ packages:\nscikit-learn \S+\n", few)
    assert "matches “cowsay”" in ask(tools.list_packages, filter="cowsay")
    languages = ask(tools.list_languages)
    assert languages.startswith("python: Python 3.")
    assert "\nrust" not in languages
    assert ask(tools.list_languages, filter="sqlite").startswith("sql: SQL (SQLite) 3.")


def test_an_administrator_adds_a_language(tools):
    tools.valves = tools.Valves(languages=AWK)
    try:
        assert "Languages: python, bash, javascript, perl, sql, awk.\n" in described(
            tools
        )
        text, _ = call(tools, "BEGIN { print 6 * 7 }", language="gawk")
        assert "stdout:\n42\n" in text
        text, _ = call(tools, "BEGIN {\n print }}\n", language="awk")
        assert "outcome: failed" in text
        listed = asyncio.run(tools.list_languages(__user__={"id": "u"}))
        assert re.search(r"^awk: AWK \S+ \(also gawk\)$", listed, re.MULTILINE)
    finally:
        tools.valves = tools.Valves()
    text, _ = call(tools, "BEGIN { print 6 * 7 }", language="awk")
    assert "There is no language “awk” here" in text
    assert "awk" not in described(tools)
    with pytest.raises(ValueError, match="awk: run is missing"):
        tools.Valves(languages=AWK.replace("run =", "interpreters ="))


def test_a_person_may_lower_a_limit(tools):
    own = {"id": "u", "valves": tools.UserValves(timeout_seconds=1)}
    text, _ = call(tools, "import time; time.sleep(9)", user=own)
    assert "stopped after 1 s" in text


def test_stop_ends_the_run_and_is_passed_on(tools):
    events = []

    async def emit(event):
        events.append(event["data"]["description"])

    async def stop_when_running():
        code = "import time; time.sleep(60)"
        task = asyncio.create_task(
            tools.run_code(code, __chat_id__="temporary:1", __event_emitter__=emit)
        )
        while not events:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()  # a person may press twice
        with pytest.raises(asyncio.CancelledError):
            await task
        while len(events) < 2:
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(stop_when_running(), 10))
    assert events == ["Running Python…", "The run was stopped on request."]


def test_three_functions_are_tools(tools):
    names = [n for n in dir(tools) if not n.startswith("_")]
    functions = [
        n
        for n in names
        if callable(getattr(tools, n)) and not isinstance(getattr(tools, n), type)
    ]
    assert functions == ["list_languages", "list_packages", "run_code"]


def test_the_environment_wins(tools, monkeypatch):
    tools.valves = tools.Valves(timeout_seconds=20)
    monkeypatch.setenv("RUN_CODE_TIMEOUT_SECONDS", "1")
    assert "stopped after 1 s" in call(tools, "import time; time.sleep(9)")[0]
    tools.valves = tools.Valves(timeout_seconds=20)
    assert "at most 1 s" in tools.run_code.__doc__


def test_a_bad_environment_is_told_in_one_sentence(tools, monkeypatch):
    monkeypatch.setenv("RUN_CODE_MEMORY_MB", "lots")
    tools.valves = tools.Valves()
    text, statuses = call(tools, "print(1)")
    sentence = (
        "The environment variable RUN_CODE_MEMORY_MB must be a whole number from 32 to "
        "65536, not “lots”. Ask your administrator to correct it."
    )
    assert text == f"outcome: not_run\nmessage: {sentence}\n"
    assert statuses == [sentence]
    assert "RUN_CODE_MEMORY_MB" in os.environ
