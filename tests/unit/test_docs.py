"""The documents: their links lead somewhere, and every error that people meet is explained."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from owui_plugin import interrupted, presenter, runtime
from sandbox_core.engines import docker_errors

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")], key=lambda path: path.name
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SETUP = " ".join((ROOT / "docs/setup.md").read_text("utf-8").split())


def anchors_of(path: Path) -> set[str]:
    """The names that GitHub gives to a document's headings."""
    headings = HEADING.findall(path.read_text("utf-8"))
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for link in LINK.findall(document.read_text("utf-8")):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        assert target.exists(), link
        assert not anchor or anchor in anchors_of(target), link


def sentences_of(module: ModuleType) -> list[str]:
    """Its constants that are whole sentences: what people are told."""
    return [
        value
        for name, value in vars(module).items()
        if re.match(r"_[A-Z]", name) and isinstance(value, str) and value.endswith(".")
    ]


SENTENCES = [
    sentence
    for module in (docker_errors, interrupted, presenter, runtime)
    for sentence in sentences_of(module)
]


def test_there_are_sentences():
    assert len(SENTENCES) > 8


@pytest.mark.parametrize("sentence", SENTENCES)
def test_errors_are_explained(sentence):
    assert re.split(r"[,.:;]| \(|, so ", sentence)[0] in SETUP


TEST_LINK = re.compile(r"\[(test_\w+)\]\((\.\./tests/[^)]+)\)")


def test_claims_are_shown_by_tests_that_exist():
    document = ROOT / "docs/threat-model.md"
    shown = TEST_LINK.findall(document.read_text("utf-8"))
    assert len(shown) > 20
    for test, path in shown:
        source = (document.parent / path).read_text("utf-8")
        assert f"def {test}(" in source, f"{test} is not in {path}"
