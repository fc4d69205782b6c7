"""The corpus on this machine: every program, with every interpreter, in all three ways."""

import pytest

from tests.launcher.interpreters import Interpreter, find_interpreters
from tests.launcher.programs import (
    LAUNCHER,
    PROGRAMS,
    STANDARD_MODULES,
    compare,
    ways_of,
)
from tests.launcher.runner import PLAIN, WARM, run


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("interpreter", find_interpreters(), ids=str)
def test_same_as_plain_python(interpreter: Interpreter, name: str, tmp_path) -> None:
    request = {
        "python": interpreter.path,
        "launcher": LAUNCHER.read_text("utf-8"),
        "folder": str(tmp_path),
    }
    plain = run({**request, "way": PLAIN}, PROGRAMS[name])
    for way in ways_of(name):
        preload = STANDARD_MODULES if way == WARM else []
        launched = run({**request, "way": way, "preload": preload}, PROGRAMS[name])
        compare(name, interpreter.version[:2], plain, launched)
