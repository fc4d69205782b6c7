"""What a model is told of an image: filtered, and within a budget."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.inventory import (
    Inventory,
    InventoryFailed,
    inventory_request,
    read_inventory,
)
from sandbox_core.languages import LANGUAGES
from sandbox_core.listing import list_languages_text, list_packages_text, matching
from sandbox_core.models import KeptText, RunResult
from sandbox_core.outcome import Outcome

PACKAGES = {"numpy": "2.4.6", "python-docx": "1.2.0", "scikit-learn": "1.9.1"}
FOUND = Inventory({"python": "3.11.2", "go": "1.19.8"}, PACKAGES)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("", list(PACKAGES)),
        ("NUM", ["numpy"]),
        ("scikit_learn", ["scikit-learn"]),
        ("docx, num", ["numpy", "python-docx"]),
        ("cowsay", []),
    ],
)
def test_matching(wanted: str, names: list[str]) -> None:
    assert matching(PACKAGES, wanted) == names


def test_packages() -> None:
    text = list_packages_text(FOUND, "num")
    assert text == "Python 3.11.2, 1 of 3 packages:\nnumpy 2.4.6\n"
    none = list_packages_text(FOUND, "cowsay")
    assert none == "Python 3.11.2: none of the 3 packages matches “cowsay”.\n"


def test_languages() -> None:
    text = list_languages_text(FOUND.languages, "")
    assert text.splitlines()[1] == "go: Go 1.19.8 (also golang)"
    assert list_languages_text(FOUND.languages, "golang").startswith("go: ")
    assert "There are: python, go." in list_languages_text(FOUND.languages, "cobol")


@given(st.integers(200, 2000))
def test_a_long_list_says_what_is_left_out(budget: int) -> None:
    many = Inventory({}, {f"package-{n}": "1.0" for n in range(300)})
    text = list_packages_text(many, "", budget)
    assert len(text.encode()) <= budget
    shown = text.count("package-")
    assert text.endswith(f"and {300 - shown} more: give a filter.\n")


def result(stdout: str, outcome: Outcome = Outcome.OK) -> RunResult:
    return RunResult("r", outcome, "Why.", stdout=KeptText(stdout))


def test_the_program_asks_for_every_language() -> None:
    (step,) = inventory_request().steps
    compile(step.code, "inventory", "exec")
    assert all(f"{entry.name!r}: [" in step.code for entry in LANGUAGES)


def test_the_answer_is_read_and_sorted() -> None:
    told = {
        "languages": {"go": "1.19", "cobol": "85", "python": "3.11"},
        "packages": {"b": "2", "A": "1\n\x1b[31m"},
    }
    found = read_inventory(result(json.dumps(told)))
    assert list(found.languages.items()) == [("python", "3.11"), ("go", "1.19")]
    assert list(found.packages.items()) == [("A", "1"), ("b", "2")]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"languages": [], "packages": {}}', "x" * 99, "[" * 9999]
)
def test_another_answer_is_refused(text: str) -> None:
    with pytest.raises(InventoryFailed, match="could not be listed"):
        read_inventory(result(text))


def test_a_failed_run_is_no_list() -> None:
    with pytest.raises(InventoryFailed, match=r"Why\."):
        read_inventory(result("{}", Outcome.TIMEOUT))
