"""The bundler on a toy project: what it builds, and that it loads as in Open WebUI."""

import ast
import subprocess
import sys
from pathlib import Path

import black
import pytest
from bundle import PLUGINS, build, run
from bundle_payload import embed_programs, read_programs
from bundle_source import (
    REWRITTEN_PHRASES,
    BundleError,
    parse_module,
    phrase_violations,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.toy_project import SOURCES, edit, write_toy

ROOT = Path(__file__).resolve().parents[2]
LOADER = ROOT / "tests/plugin/owui_loader.py"


@pytest.fixture
def toy(tmp_path):
    write_toy(tmp_path)
    return tmp_path


def python(*arguments, stdin=""):
    done = subprocess.run(
        [sys.executable, "-I", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_loads_as_in_open_webui_and_works_after_its_module_is_gone(toy):
    list(run(toy, check=False))
    probe = """
import asyncio, dataclasses, json, sys
assert module.__name__ not in sys.modules
assert "docker" not in sys.modules
print(asyncio.run(plugin.action({"name": "ab"})))
Shape = module.Shape
print(dataclasses.replace(Shape("x"), name="y"), Shape("x") == Shape("x"))
print(module.Colour("red"), [f.name for f in dataclasses.fields(Shape)])
print(plugin.Valves(**{"size": "7"}), json.dumps(plugin.Valves.model_json_schema())[:20])
try:
    plugin.Valves(size=0, shape="cone")
except ValueError as error:
    print(error.error_count())
try:
    import sandbox_core
except ImportError as error:
    print(error)
"""
    size = len(SOURCES["sandbox_core/guest.py"])
    assert python(LOADER, "function", toy / PLUGINS[0].target, stdin=probe) == (
        f'["abab", "red"] {size} b\n'
        "Shape(name='y', colours=[<Colour.RED: 'red'>]) True\n"
        "red ['name', 'colours']\n"
        'size=7 shape=\'box\' {"properties": {"siz\n'
        "2\n"
        "No module named 'sandbox_core'\n"
    )


def test_both_files_are_of_one_build(toy):
    texts = build(toy).values()
    builds = [
        line for text in texts for line in text.splitlines() if "BUILD_ID =" in line
    ]
    assert builds[0] == builds[1]
    assert builds[0].startswith('BUILD_ID = "1.2.3+')
    edit(toy, "owui_plugin/tool.py", "run_code(", "run_more(")
    assert builds[0] not in build(toy)[PLUGINS[0].target]


def test_runs_as_a_program(toy):
    list(run(toy, check=False))
    printed = python(toy / PLUGINS[1].target, "--self-test")
    assert printed.startswith('[\'--self-test\'] ["box", "red"]')


def test_header(toy):
    text = build(toy)[PLUGINS[0].target]
    assert text.startswith('"""\ntitle: Run code\n')
    header = text.split("import logging")[0]
    for part in (
        "\nversion: 1.2.3\n",
        "\nrequired_open_webui_version: 0.9.6\n",
        "\nrequirements: docker>=7, pydantic>=2\n",
        "\nlicense: Apache-2.0\n",
        "\nicon_url: data:image/svg+xml,%3Csvg",
        "Edit the sources, not this file",
        "#     python scripts/bundle.py\n",
        "#     sandbox_core/shape.py    Shapes, and their colours.\n",
        "#     sandbox_core/payload.py  Texts of the programs.\n",
    ):
        assert part in header
    assert "icon_url" not in build(toy)[PLUGINS[1].target]


def test_loader_reads_the_header(toy):
    list(run(toy, check=False))
    printed = python(
        LOADER,
        "tool",
        toy / PLUGINS[1].target,
        stdin="print(kind, sorted(frontmatter))",
    )
    assert printed == (
        "Tools ['author', 'description', 'license', 'required_open_webui_version', "
        "'requirements', 'title', 'version']\n"
    )


def test_order_markers_and_imports(toy):
    text = build(toy)[PLUGINS[0].target]
    paths = [
        "sandbox_core/shape.py",
        "sandbox_core/payload.py",
        "sandbox_core/words.py",
        "owui_plugin/action.py",
    ]
    markers = [line for line in text.splitlines() if line.startswith("# =====")]
    assert markers == [
        f"# ===== {word} {path} =====" for path in paths for word in ("begin", "end")
    ]
    imports = [
        line for line in text.splitlines() if line.startswith(("import", "from"))
    ]
    assert imports == [
        "import logging",
        "import os.path",
        "import sys",
        "from dataclasses import dataclass, field",
        "from enum import StrEnum",
        "from typing import Any, ClassVar, Literal, Self",
        "from pydantic import BaseModel, Field",
    ]
    assert "__all__" not in text
    assert text.rstrip().endswith("# ===== end owui_plugin/action.py =====")
    assert text.count("__main__") == 1


def test_is_a_fixed_point_of_the_editor_and_reproducible(toy):
    bundles = build(toy)
    assert bundles == build(toy)
    for text in bundles.values():
        assert black.format_str(text, mode=black.Mode()) == text
        assert not any(phrase in text for phrase in REWRITTEN_PHRASES)
        assert str(toy) not in text


def test_programs_are_embedded_as_they_are(toy):
    text = build(toy)[PLUGINS[0].target]
    values = [
        node.value.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "GUEST_SOURCE"
    ]
    assert values == [SOURCES["sandbox_core/guest.py"]]
    assert SOURCES["sandbox_core/guest.py"] in text


def test_check_compares_whole_bytes(toy):
    assert len(list(run(toy, check=True))) == 2
    assert [path.name for path in toy.glob("open-webui/*/*")] == []
    assert len(list(run(toy, check=False))) == 2
    assert list(run(toy, check=True)) == []
    target = toy / PLUGINS[1].target
    target.write_bytes(target.read_bytes() + b"\n")
    assert list(run(toy, check=True)) == [
        "open-webui/tools/run_code.py is out of step with its sources. "
        "Run: python scripts/bundle.py"
    ]


program_texts = st.text(
    st.one_of(st.sampled_from("\"'\\\n #r"), st.characters(codec="utf-8")), max_size=40
).filter(lambda text: "'''" not in text and "\r" not in text and "\0" not in text)


@given(program_texts)
def test_embedded_text_comes_back_exactly_or_is_refused(text):
    module = parse_module(
        "sandbox_core.payload", '"""D."""\n\n__all__ = ["A_SOURCE"]\n'
    )
    try:
        embedded = embed_programs(module, {"A_SOURCE": text}, "1+a")
    except BundleError:
        assert text.endswith(("'", "\\"))
        return
    formatted = black.format_str(embedded.text, mode=black.Mode())
    assert black.format_str(formatted, mode=black.Mode()) == formatted
    space: dict[str, str] = {}
    exec(formatted, space)
    assert space["A_SOURCE"] == text


@given(st.lists(st.sampled_from([*REWRITTEN_PHRASES, "from", " main", "\n", "x"])))
def test_every_rewritten_phrase_is_found(parts):
    text = "".join(parts)
    lines = text.split("\n")
    wanted = {
        (number, phrase)
        for number, line in enumerate(lines, start=1)
        for phrase in REWRITTEN_PHRASES
        if phrase in line
    }
    found = phrase_violations("f.py", text)
    assert {v.line for v in found} == {number for number, _ in wanted}
    assert len(found) == len(wanted)


def test_the_project_embeds_what_it_runs():
    programs = read_programs(ROOT)
    assert programs["GUEST_SOURCE"] == (ROOT / "sandbox_core/guest.py").read_text(
        "utf-8"
    )
