"""scripts/check: what it looks at, and what it says when a tool is missing."""

import importlib.util
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "scripts/check"


@pytest.fixture
def check(tmp_path, monkeypatch):
    loader = SourceFileLoader("check_script", str(CHECK))
    spec = importlib.util.spec_from_loader("check_script", loader)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "check_script", module)
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_missing_tools_are_named_with_the_remedy():
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(CHECK)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "Not installed here: black, mypy, pydantic, ruff" in done.stderr
    assert done.stderr.endswith("Run: pip install -r requirements-dev.txt\n")


def test_scripts_are_known_by_their_first_line(check, tmp_path):
    files = {
        "scripts/a": "#!/usr/bin/env bash\n",
        "scripts/b": "#!/bin/sh -e\n",
        ".ci/run": "#!/bin/bash\n",
        "scripts/c": "#!/usr/bin/env python3\n",
        "scripts/d": "bash\n",
        "scripts/e": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert check.scripts_of("(?:ba|da)?sh") == [".ci/run", "scripts/a", "scripts/b"]
    assert check.scripts_of("python") == ["scripts/c"]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("# Changes\n\n## 1.2.0 - 2031-01-01\n", True),
        ("## [1.2.0]\n", True),
        ("## 1.2.01\n", False),
        ("## 11.2.0\ntext 1.2.0\n", False),
        (None, False),
    ],
)
def test_changelog_needs_a_heading_for_the_version(check, tmp_path, text, known):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n', "utf-8")
    if text is not None:
        (tmp_path / "CHANGELOG.md").write_text(text, "utf-8")
    assert check.changelog_has_version() is known


def test_a_failing_step_fails(check, capsys):
    python = sys.executable
    assert check.passes(check.Step("good", (python, "-c", "print('quiet')")))
    assert not check.passes(check.Step("bad", (python, "-c", "print('why'); exit(3)")))
    printed = capsys.readouterr().out
    assert "quiet" not in printed
    assert "why\nbad: FAILED\n" in printed
