"""What a run asks to be installed, and what is no package's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.errors import InvalidRequest
from sandbox_core.models import RunRequest, Step
from sandbox_core.requirements import (
    asks_for_packages,
    gather_packages,
    normal_name,
    package_names,
    read_requirement,
)


@pytest.mark.parametrize(
    ("text", "name", "asked"),
    [
        ("cowsay", "cowsay", "cowsay"),
        (" Cow_Say ", "cow-say", "cow-say"),
        ("zope.interface", "zope-interface", "zope-interface"),
        ("cowsay==6.1", "cowsay", "cowsay==6.1"),
        ("cowsay >= 5, < 7", "cowsay", "cowsay>=5,<7"),
        ("requests[socks]~=2.0", "requests", "requests[socks]~=2.0"),
        ("x==1.0+local.1", "x", "x==1.0+local.1"),
        ("x==2.*", "x", "x==2.*"),
    ],
)
def test_requirements(text: str, name: str, asked: str) -> None:
    found = read_requirement(text)
    assert (found.name, found.text) == (name, asked)
    assert found.is_plain == (name == asked)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-r requirements.txt",
        "--index-url=http://x/",
        "git+https://example.org/x.git",
        "https://example.org/x.whl",
        "./x.whl",
        "/etc/passwd",
        "x @ https://example.org/x.whl",
        "x; python_version < '3'",
        "two words",
        "x==",
        "x\n-y",
        "é",
    ],
)
def test_only_names_are_taken(text: str) -> None:
    with pytest.raises(InvalidRequest, match="name packages of the index"):
        read_requirement(text)


@given(st.text())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        found = read_requirement(text)
    except InvalidRequest:
        return
    assert not found.text.startswith("-")
    assert not set(found.text) & set(" \n/\\@;'\"$`|&:")


def gathered(*steps: tuple[str, str], packages: tuple[str, ...] = ()) -> RunRequest:
    programs = tuple(Step(language, code) for language, code in steps)
    return gather_packages(RunRequest(programs, packages=packages))


@pytest.mark.parametrize(
    ("language", "code", "packages", "rest"),
    [
        ("bash", "pip install cowsay\n", ("cowsay",), "\n"),
        (
            "bash",
            "# first\n\npip3 install -q a b\nls\n",
            ("a", "b"),
            "# first\n\n\nls\n",
        ),
        ("sh", "python3 -m pip install -U 'a<2' \"b>=1\"", ("a<2", "b>=1"), ""),
        ("bash", "uv pip install a  # why\npip install b", ("a", "b"), "\n"),
        ("python", "!pip install a\nimport a\n", ("a",), "\nimport a\n"),
        ("python", "%pip install --quiet a\n", ("a",), "\n"),
        ("python", "pip install a\n", (), None),
        ("bash", "ls\npip install a\n", (), None),
        ("bash", "pip install a && ls\n", (), None),
        ("bash", "pip install $A\n", (), None),
        ("bash", "pip install -r requirements.txt\n", (), None),
        ("bash", "pip install --index-url http://x a\n", (), None),
        ("bash", "pip install\n", (), None),
        ("bash", "pip uninstall a\n", (), None),
        ("javascript", "pip install a\n", (), None),
    ],
)
def test_lines_before_the_code(
    language: str, code: str, packages: tuple[str, ...], rest: str | None
) -> None:
    request = gathered((language, code))
    assert request.packages == packages
    assert request.steps[0].code == (code if rest is None else rest)
    assert request.steps[0].code.count("\n") == code.count("\n")


METADATA = """\
#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "cowsay<7",
#   "Rich",
# ]
# ///
import cowsay
"""


def test_a_scripts_metadata() -> None:
    request = gathered(("python", METADATA))
    assert request.packages == ("cowsay<7", "rich")
    assert request.steps[0].code == METADATA
    assert gathered(("bash", METADATA)).packages == ()
    broken = METADATA.replace("dependencies = [", "dependencies = ")
    assert gathered(("python", broken)).packages == ()


def test_all_that_is_asked_for_is_installed_once() -> None:
    request = gathered(
        ("bash", "pip install b"), ("python", "!pip install a B"), packages=("A",)
    )
    assert request.packages == ("a", "b")


def test_there_is_a_most() -> None:
    with pytest.raises(InvalidRequest, match="20 packages at most, not 21"):
        gathered(("bash", ":"), packages=tuple(f"p{number}" for number in range(21)))


@given(st.text(), st.sampled_from(["bash", "python"]))
def test_any_code_keeps_its_lines(code: str, language: str) -> None:
    try:
        request = gathered((language, code))
    except InvalidRequest:
        return
    assert request.steps[0].code.count("\n") == code.count("\n")


@pytest.mark.parametrize(
    ("language", "code", "alone"),
    [
        ("bash", "# x\npip install a\n\n", True),
        ("bash", "pip install a\nls\n", False),
        ("bash", "npm install a\n", False),
        ("python", "!pip install a\n", True),
        ("bash", "\n", False),
    ],
)
def test_blocks_that_only_install(language: str, code: str, alone: bool) -> None:
    assert asks_for_packages(Step(language, code)) == alone


def test_names() -> None:
    assert normal_name("A__b-.C") == "a-b-c"
    assert package_names("numpy, Scikit_Learn\npandas") == {
        "numpy",
        "scikit-learn",
        "pandas",
    }
