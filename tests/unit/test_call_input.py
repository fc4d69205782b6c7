"""What models put around the code that they pass, taken off again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.call_input import read_call
from sandbox_core.errors import InvalidRequest

CODE = "x = 1\nprint(x)\n"


@pytest.mark.parametrize(
    ("code", "program"),
    [
        (CODE, CODE),
        (f"```python\n{CODE}```", CODE),
        (f"```\n{CODE}```", CODE),
        (f"\n  ```py\n{CODE}```  \n", CODE),
        (f"~~~python\n{CODE}~~~", CODE),
        (f"````python\n{CODE}````", CODE),
        (f"```python\n{CODE}", CODE),  # the model forgot the end
        ("`print(1)`", "print(1)"),
        ("``print(1)``", "print(1)"),
        ("```print(1)```", "print(1)"),
        ("```python\n# only a remark\n```", "# only a remark\n"),
        ("print('`a`')", "print('`a`')"),
        ("print('''\n```\n''')", "print('''\n```\n''')"),
        (42, "42"),
    ],
)
def test_what_is_around_the_code(code, program):
    read, language = read_call(code, "python")
    assert read == program
    assert language.name == "python"


@pytest.mark.parametrize(
    ("tag", "language", "name"),
    [
        ("bash", "python", "bash"),
        ("js", None, "javascript"),
        ("python", "bash", "bash"),  # a language that was chosen wins
        ("unknown", "python", "python"),
        ("", "SH", "bash"),
    ],
)
def test_language_of_the_call_and_of_the_fence(tag, language, name):
    assert read_call(f"```{tag}\necho\n```", language)[1].name == name


@pytest.mark.parametrize(
    "code",
    [
        "",
        "  \n\t",
        None,
        "\ufeff\u200b\n",
        "```python\n```",
        "```python\n\n  \n```",
        "```\n```",
        "~~~py\n~~~",
        "```python\n",
        "```python",
        "```",
        "``````",
        "` `",
    ],
)
def test_no_code(code):
    with pytest.raises(InvalidRequest, match="There is no code to run"):
        read_call(code, "python")


def test_unknown_language():
    with pytest.raises(InvalidRequest, match="python"):
        read_call("x", "klingon")


@given(st.text() | st.integers() | st.lists(st.text()), st.text() | st.none())
def test_anything_is_read_or_refused(code, language):
    try:
        program, found = read_call(code, language)
    except InvalidRequest:
        return
    assert isinstance(program, str)
    assert found.name
