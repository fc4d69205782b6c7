"""The interpreters of this machine that the launcher is tested with."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

SHOW = "import sys; print(*sys.version_info[:3], sys.executable, sep='\\n')"
MINORS = range(9, 14)


@dataclass(frozen=True)
class Interpreter:
    """A Python that runs here; ``str()`` of it is its version."""

    path: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def find_interpreters() -> list[Interpreter]:
    """The running one, python3.9 to python3.13 of PATH, those of RUN_CODE_TEST_PYTHONS."""
    named = os.environ.get("RUN_CODE_TEST_PYTHONS", "").split(os.pathsep)
    on_path = [shutil.which(f"python3.{minor}") for minor in MINORS]
    found: dict[tuple[int, int, int], Interpreter] = {}
    for path in [sys.executable, *filter(None, [*named, *on_path])]:
        interpreter = _ask(path)
        if interpreter:
            found.setdefault(interpreter.version, interpreter)
    return sorted(found.values(), key=lambda interpreter: interpreter.version)


def _ask(path: str) -> Interpreter | None:
    """What the interpreter says of itself; None when it does not run, as a version shim may."""
    answer = subprocess.run(
        [path, "-c", SHOW], capture_output=True, text=True, timeout=30
    )
    if answer.returncode:
        return None
    major, minor, micro, executable = answer.stdout.splitlines()
    return Interpreter(executable, (int(major), int(minor), int(micro)))
