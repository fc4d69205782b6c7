"""The programs of a sandbox that are made of several modules' texts."""

import re
from functools import cache

from sandbox_core.payload import (
    GUEST_FILES_SOURCE,
    GUEST_PROCESS_SOURCE,
    GUEST_SOURCE,
    GUEST_WATCH_SOURCE,
    GUEST_WIRE_SOURCE,
    LAUNCHER_DISPLAY_SOURCE,
    LAUNCHER_FIGURES_SOURCE,
)

__all__ = ["display_program", "guest_program"]

_OWN_IMPORT = re.compile(r"^from sandbox_core\.\w+ import .*\n", re.MULTILINE)


@cache
def guest_program() -> str:
    """What the bootstrap in a fresh sandbox reads and becomes: it registers the guest's modules
    under their names and runs it."""
    modules = (
        ("sandbox_core.guest_wire", GUEST_WIRE_SOURCE),
        ("sandbox_core.guest_process", GUEST_PROCESS_SOURCE),
        ("sandbox_core.guest_files", GUEST_FILES_SOURCE),
        ("sandbox_core.guest_watch", GUEST_WATCH_SOURCE),
    )
    lines = ["import sys", "sys.modules['sandbox_core'] = type(sys)('sandbox_core')"]
    for name, source in modules:
        lines.append(f"module = sys.modules[{name!r}] = type(sys)({name!r})")
        lines.append(f"exec(compile({source!r}, {name!r}, 'exec'), module.__dict__)")
    lines.append(
        f"exec(compile({GUEST_SOURCE!r}, 'guest', 'exec'), {{'__name__': '__main__'}})"
    )
    return "\n".join(lines) + "\n"


@cache
def display_program() -> str:
    """What the launcher runs when a program shows something: its parts in one name space, so
    that nothing has to be imported."""
    return _OWN_IMPORT.sub("", LAUNCHER_FIGURES_SOURCE + LAUNCHER_DISPLAY_SOURCE)
