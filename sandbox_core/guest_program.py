"""The program that the bootstrap in a fresh sandbox reads and becomes: all guest modules."""

from functools import cache

from sandbox_core.payload import (
    GUEST_FILES_SOURCE,
    GUEST_PROCESS_SOURCE,
    GUEST_SOURCE,
    GUEST_WIRE_SOURCE,
)

__all__ = ["guest_program"]


@cache
def guest_program() -> str:
    """One program text that registers the guest's modules under their names and runs it."""
    modules = (
        ("sandbox_core.guest_wire", GUEST_WIRE_SOURCE),
        ("sandbox_core.guest_process", GUEST_PROCESS_SOURCE),
        ("sandbox_core.guest_files", GUEST_FILES_SOURCE),
    )
    lines = ["import sys", "sys.modules['sandbox_core'] = type(sys)('sandbox_core')"]
    for name, source in modules:
        lines.append(f"module = sys.modules[{name!r}] = type(sys)({name!r})")
        lines.append(f"exec(compile({source!r}, {name!r}, 'exec'), module.__dict__)")
    lines.append(
        f"exec(compile({GUEST_SOURCE!r}, 'guest', 'exec'), {{'__name__': '__main__'}})"
    )
    return "\n".join(lines) + "\n"
