"""Records of languages that an administrator adds: what they become, and every fault told."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.errors import InvalidRequest
from sandbox_core.language_records import (
    parse_language_records,
    read_language_records,
)
from sandbox_core.languages import (
    LANGUAGES,
    find_interpreter,
    find_language,
    known_languages,
    use_added_languages,
)

AWK = """
[awk]
title = "AWK"
aliases = ["gawk", "mawk"]
file_name = "main.awk"
run = ["awk", "-f", "{source}"]
version = ["awk", "-W", "version"]
image = "my-image:1"
interpreters = ["awk"]
line_reference = "main.awk: line {line}"
self_test = { code = 'BEGIN { print 6 * 7 }', expected_stdout = "42\\n" }
"""
GOOD = {
    "file_name": "main.x",
    "run": ["x", "{source}"],
    "version": ["x", "--version"],
    "self_test": {"code": "1", "expected_stdout": "1"},
}


@pytest.fixture
def added():
    """`added(text)`: these languages are known, for this test."""
    yield lambda text: use_added_languages(parse_language_records(text))
    use_added_languages(())


def test_a_record_becomes_a_language_like_the_others(added):
    added(AWK)
    awk = find_language("GAWK")
    assert known_languages() == (*LANGUAGES, awk)
    assert find_interpreter("#!/usr/bin/env awk -f\n") is awk
    assert (awk.title, awk.image, awk.joins) == ("AWK", "my-image:1", False)
    command = awk.command_for("", "/mnt/data/main.awk", "/build")
    assert (command.argv, command.needs) == (("awk", "-f", "/mnt/data/main.awk"), "awk")
    assert awk.line_reference == r"main\.awk:\ line\ (\d+)"
    added("")
    assert find_language("awk") is None
    assert known_languages() == LANGUAGES


def test_json_and_toml_are_the_same():
    compiled = GOOD | {
        "compile": ["xc", "{source}", "-o", "{build}/x"],
        "run": ["{build}/x"],
    }
    (language,) = parse_language_records(json.dumps({"x-lang": compiled}))
    command = language.command_for("", "s", "b")
    assert (command.compile_argv, command.argv) == (("xc", "s", "-o", "b/x"), ("b/x",))
    assert language.title == "X-lang"
    assert parse_language_records(" \n") == parse_language_records("{}") == ()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"file_name": "../main.x"}, "file_name must be a name with an ending"),
        ({"file_name": "main"}, "file_name must be a name with an ending"),
        ({"run": "x {source}"}, "run must be a list of texts"),
        ({"run": []}, "run must have words"),
        ({"run": ["x", ""]}, "run must have words, none of them empty"),
        ({"run": ["x"]}, "no command has {source}"),
        ({"run": ["{build}/x", "{source}"]}, "run has {build}, and there is no comp"),
        ({"compile": ["xc", "{source}"]}, "compile has no {build}"),
        ({"version": []}, "version must have words"),
        ({"self_test": {"code": "1"}}, "self_test must be a table with the texts code"),
        ({"self_test": 1}, "self_test must be a table"),
        ({"joins": "yes"}, "joins must be true or false"),
        ({"image": "two words"}, "image must be the name of an image"),
        ({"line_reference": "line"}, "line_reference must have {line} once"),
        ({"aliases": ["X"]}, "“X” is no word of lower-case letters"),
        ({"aliases": ["py"]}, "“py” means Python already"),
        ({"aliases": ["console"]}, "“console” means Bash already"),
        ({"aliases": ["y"]}, "“y” means y already"),
        ({"command": ["x"]}, "there is no field command; there are title, aliases"),
    ],
)
def test_a_fault_is_told_with_the_language_and_the_field(change, fault):
    records = {"x": GOOD | change, "y": GOOD}
    with pytest.raises(InvalidRequest) as caught:
        parse_language_records(json.dumps(records))
    assert f" x: {fault}" in str(caught.value)


def test_all_faults_are_told_at_once():
    records = {"python": GOOD, "x": {"run": ["x"], "joins": 1}, "y": 3}
    with pytest.raises(InvalidRequest) as caught:
        parse_language_records(json.dumps(records))
    told = str(caught.value)
    for fault in (
        "python: “python” means Python already.",
        "x: file_name is missing.",
        "x: version is missing.",
        "x: self_test is missing.",
        "x: joins must be true or false.",
        "y: this is no table.",
    ):
        assert fault in told
    many = json.dumps({f"x{number}": GOOD for number in range(33)})
    with pytest.raises(InvalidRequest, match="There may be 32 at most"):
        parse_language_records(many)


@pytest.mark.parametrize("text", ["[awk", "{", "[1]", '{"a": 1, "a"'])
def test_what_is_neither_toml_nor_json_is_said(text):
    with pytest.raises(InvalidRequest, match="records of languages"):
        parse_language_records(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("x", *GOOD, "aliases")), inner, max_size=6),
        max_leaves=12,
    )
)
def test_any_json_is_read_or_refused(value):
    with contextlib.suppress(InvalidRequest):
        parse_language_records(json.dumps({"x": value}))


def test_the_setting_is_the_text_or_the_path_of_a_file(tmp_path):
    file = tmp_path / "languages.toml"
    file.write_text(AWK)
    assert read_language_records(str(file)) == AWK
    assert read_language_records(AWK) == AWK
    file.write_text("#" * 70_000)
    with pytest.raises(InvalidRequest, match="more than 65536 bytes"):
        read_language_records(str(file))
    with pytest.raises(InvalidRequest, match="cannot be read") as caught:
        read_language_records("/nowhere/languages.toml")
    assert "/nowhere" not in str(caught.value)
