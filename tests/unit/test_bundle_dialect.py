"""What the bundler refuses, each with file and line."""

import pytest
from bundle import build
from bundle_source import REWRITTEN_PHRASES

from tests.unit.toy_project import GUARD, edit, violations, write_toy


@pytest.fixture
def toy(tmp_path):
    write_toy(tmp_path)
    return tmp_path


HEAD = "import logging\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("from __future__ import annotations\n", "no __future__ imports"),
        ("from . import words\n", "A relative import"),
        ("import sandbox_core.words\n", "imported whole"),
        ("from sandbox_core import words\n", "of a package, not of a module"),
        ("from sandbox_core.payload import *\n", "star or an alias"),
        ("from sandbox_core.payload import BUILD_ID as B\n", "star or an alias"),
        ("import json as j\n", "star or an alias at module level"),
        ("from json import *\n", "star or an alias at module level"),
        ("import docker\n", "docker is imported at load"),
        ("class _C:\n    import requests\n", "requests is imported at load"),
        ("from threading import Barrier as B\n", "star or an alias at module level"),
        ("def _f(x: 'Shape'): ...\n", "'Shape' is a string"),
        ("def _f() -> list['Shape']: ...\n", "'Shape' is a string"),
        ("_x: 'int' = 1\n", "'int' is a string"),
        ("_f_log = logging.getLogger(__name__)\n", "a fixed name that begins"),
        ("_f_log = logging.getLogger()\n", "a fixed name that begins"),
        ("_here = __file__\n", "__file__ means nothing"),
        ("_here = __name__\n", "__name__ differs"),
        ("def open(): ...\n", "hide Python's own open"),
        ("from os import open\n", "hide Python's own open"),
        ("from logging import Filter\n", "take the file for a Filter plugin"),
        (f"# not {REWRITTEN_PHRASES[2]}tenance\n", "Open WebUI rewrites"),
        (f"_s = '{REWRITTEN_PHRASES[3]}uration'\n", "Open WebUI rewrites"),
        ('if __name__ == "__main__":\n    pass\n', "Only the entry module may hold"),
        ("def _f(:\n", "This is no Python"),
        ("class Shape2: ...\n\n\nfield = Shape2\n", "field is also"),
    ],
)
def test_dialect_breach_is_refused_with_file_and_line(toy, text, sentence):
    edit(toy, "sandbox_core/shape.py", HEAD, f"{text}{HEAD}")
    report = violations(toy)
    first = next(line for line in report.splitlines() if sentence in line)
    path, line, _ = first.split(":", 2)
    assert path == "sandbox_core/shape.py"
    assert 6 <= int(line) < 6 + text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "from typing import Annotated\n\n\n_x: Annotated[int, 'a']\n",
        "_x: Literal['box'] = 'box'\n",
        "def _f(): \n    import docker\n",
        "def _f():\n    open = 1\n    return open\n",
    ],
)
def test_what_only_looks_like_a_breach_is_fine(toy, text):
    edit(toy, "sandbox_core/shape.py", HEAD, f"{HEAD}{text}")
    build(toy)


def test_project_import_inside_a_function_is_refused(toy):
    old = "    import json as codec"
    new = "    from sandbox_core.shape import Colour\n" + old
    edit(toy, "sandbox_core/words.py", old, new)
    assert "words.py:14: A project import below module level" in violations(toy)


def test_same_name_in_two_modules_is_refused(toy):
    edit(toy, "sandbox_core/words.py", "def describe", "Colour = 1\n\n\ndef describe")
    assert (
        "sandbox_core/words.py:12: The top-level name Colour is also defined in "
        "sandbox_core.shape (sandbox_core/shape.py:18)"
    ) in violations(toy)


def test_name_made_by_a_global_statement_counts(toy):
    body = "def _g():\n    global Colour\n    Colour = 1\n\n\ndef describe"
    edit(toy, "sandbox_core/words.py", "def describe", body)
    assert "The top-level name Colour is also" in violations(toy)


def test_one_import_name_with_two_meanings_is_refused(toy):
    edit(toy, "sandbox_core/words.py", "import os.path", "import time")
    edit(toy, "sandbox_core/shape.py", HEAD, HEAD + "from time import time\n")
    assert "The top-level name time is also imported from time" in violations(toy)


def test_import_circle_is_refused(toy):
    edit(
        toy,
        "sandbox_core/shape.py",
        "from pydantic",
        "from sandbox_core.words import describe\nfrom pydantic",
    )
    assert (
        "circle: sandbox_core.shape → sandbox_core.words → sandbox_core.shape"
        in violations(toy)
    )


def test_import_of_a_module_that_is_not_there(toy):
    edit(toy, "owui_plugin/tool.py", "core.shape import", "core.shade import")
    assert "owui_plugin/tool.py:6: There is no module sandbox_core.shade" in violations(
        toy
    )


def test_re_exported_name_is_refused(toy):
    edit(
        toy, "owui_plugin/tool.py", "core.shape import Shape", "core.words import Shape"
    )
    assert (
        "owui_plugin/tool.py:6: sandbox_core.words does not define Shape itself"
        in violations(toy)
    )


@pytest.mark.parametrize("ending", ["", GUARD + GUARD, GUARD + "x = 1\n"])
def test_entry_module_ends_with_one_guard(toy, ending):
    edit(toy, "owui_plugin/tool.py", GUARD, ending)
    assert "End this entry module with one" in violations(toy)


def test_missing_module_and_missing_docstring(toy):
    edit(toy, "sandbox_core/shape.py", '"""Shapes, and their colours.', '"""')
    edit(toy, "sandbox_core/words.py", '"""Words for shapes."""\n', "")
    assert "words.py:1: Begin the module with a docstring" in violations(toy)
    (toy / "owui_plugin/tool.py").unlink()
    assert "owui_plugin/tool.py:1: This module is missing" in violations(toy)


def test_two_statements_on_a_line_are_not_lost(toy):
    edit(toy, "sandbox_core/shape.py", HEAD, "import logging; _x = 1\n")
    assert "does not come out the same" in violations(toy)


def test_requirement_that_open_webui_would_split_is_refused(toy):
    edit(toy, "pyproject.toml", "docker>=7", "docker>=7,<8")
    assert "splits requirements at commas" in violations(toy)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = '''a'''\n", "guest.py:1: This text is embedded in a raw string"),
        ("x = 1\r\n", "a carriage return"),
        (f"\n# {REWRITTEN_PHRASES[0]}\n", "guest.py:2: Open WebUI rewrites"),
        ("x = 1 # \\", "This is no Python"),
    ],
)
def test_program_that_cannot_be_embedded_is_refused(toy, text, sentence):
    (toy / "sandbox_core/guest.py").write_bytes(text.encode())
    assert sentence in violations(toy)


def test_missing_program_and_unknown_payload_name(toy):
    edit(toy, "sandbox_core/payload.py", '"GUEST_SOURCE"]', '"GUEST_SOURCE", "OTHER"]')
    assert "cannot embed OTHER" in violations(toy)
    (toy / "sandbox_core/guest.py").unlink()
    assert "A sandbox program cannot be read" in violations(toy)
