"""The corpus on this machine: every program, with every interpreter, in all three ways."""

from pathlib import Path

import pytest

from tests.launcher.interpreters import Interpreter, find_interpreters
from tests.launcher.programs import (
    LAUNCHER_TEXTS,
    PROGRAMS,
    STANDARD_MODULES,
    compare,
    ways_of,
)
from tests.launcher.runner import COLD, PLAIN, WARM, run

# What a job may set for its interpreter, and programs that show it.
SETTINGS = [
    {"PYTHONSAFEPATH": "1"},
    {"PYTHONWARNINGS": "error"},
    {"PYTHONOPTIMIZE": "2"},
    {"PYTHONPATH": "/nowhere"},
    {"PYTHONUNBUFFERED": ""},
    {"PYTHONIOENCODING": "latin-1:replace"},
    {"PYTHONDEVMODE": "1"},
]
SETTING_SAMPLE = [
    "beside_module",
    "error_assertion",
    "interpreter_flags",
    "search_path",
    "stdout_broken",
    "stream_settings",
    "warning_syntax",
    "warnings_shown",
]


def request_for(interpreter: Interpreter, folder: Path, **more: object) -> dict:
    """A request to the runner, but for the way."""
    python = interpreter.path
    return {"python": python, **LAUNCHER_TEXTS, "folder": str(folder), **more}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("interpreter", find_interpreters(), ids=str)
def test_same_as_plain_python(
    interpreter: Interpreter, name: str, tmp_path: Path
) -> None:
    request = request_for(interpreter, tmp_path)
    plain = run({**request, "way": PLAIN}, PROGRAMS[name])
    for way in ways_of(name):
        preload = STANDARD_MODULES if way == WARM else []
        launched = run({**request, "way": way, "preload": preload}, PROGRAMS[name])
        compare(name, interpreter.version[:2], plain, launched)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: next(iter(setting)))
@pytest.mark.parametrize("interpreter", find_interpreters(), ids=str)
def test_same_with_settings_of_the_environment(
    interpreter: Interpreter, setting: dict[str, str], tmp_path: Path
) -> None:
    request = request_for(interpreter, tmp_path, environment=setting)
    for name in SETTING_SAMPLE:
        plain = run({**request, "way": PLAIN}, PROGRAMS[name])
        cold = run({**request, "way": COLD}, PROGRAMS[name])
        compare(name, interpreter.version[:2], plain, cold)
