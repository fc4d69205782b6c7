"""A toy project for the bundler's tests: a few small modules and both entry modules."""

import pytest
from bundle import build
from bundle_source import BundleError

GUARD = 'if __name__ == "__main__":\n    print(sys.argv[1:], describe(Shape("box")))\n'
SOURCES = {
    "pyproject.toml": """\
[project]
name = "toy"
version = "1.2.3"
license = { text = "Apache-2.0" }
dependencies = ["docker>=7", "pydantic>=2"]
""",
    "sandbox_core/__init__.py": "",
    "sandbox_core/payload.py": '''\
"""Texts of the programs. More words."""

from pathlib import Path

__all__ = ["BUILD_ID", "GUEST_SOURCE"]

BUILD_ID = "0+source"
GUEST_SOURCE = (Path(__file__).parent / "guest.py").read_bytes().decode("utf-8")
''',
    "sandbox_core/guest.py": '"""A guest: \\d \\\\ “ü”."""\n\nprint("a" \'b\')  # \\\n',
    "sandbox_core/shape.py": '''\
"""Shapes, and their colours.

More about shapes.
"""

import logging
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, Field

__all__ = ["Colour", "Shape", "ShapeValves"]

_shape_log = logging.getLogger("run_code.shape")


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Shape:
    known: ClassVar[int] = 1
    name: str
    colours: list[Colour] = field(default_factory=lambda: [Colour.RED])

    def twice(self) -> Self:
        return type(self)(self.name * 2)


class ShapeValves(BaseModel):
    size: int = Field(default=3, ge=1)
    shape: Literal["box", "ball"] = "box"
''',
    "sandbox_core/words.py": '''\
"""Words for shapes."""

import os.path
from typing import Any

from sandbox_core.payload import GUEST_SOURCE
from sandbox_core.shape import Shape

__all__ = ["describe"]


def describe(shape: Shape) -> str:
    """Says it."""
    import json as codec  # a lazy import may have an alias

    said: Any = codec.dumps([shape.name, *shape.colours])
    return f"{said} {len(GUEST_SOURCE)} {os.path.basename('/a/b')}"
''',
    "owui_plugin/__init__.py": "",
    "owui_plugin/action.py": f'''\
"""The button."""

import sys

from sandbox_core.shape import Shape, ShapeValves
from sandbox_core.words import describe


class Action:
    Valves = ShapeValves

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def action(self, body: dict[str, str]) -> str:
        return describe(Shape(body["name"]).twice())


{GUARD}''',
    "owui_plugin/tool.py": f'''\
"""The tool."""

import sys

from sandbox_core.payload import BUILD_ID
from sandbox_core.shape import Shape
from sandbox_core.words import describe


class Tools:
    build = BUILD_ID

    async def run_code(self, code: str) -> str:
        return describe(Shape(code))


{GUARD}''',
}


def write_toy(folder):
    """Writes the toy project into a folder."""
    for name, text in SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))


def edit(root, name, old, new):
    path = root / name
    text = path.read_text("utf-8")
    assert old in text
    path.write_bytes(text.replace(old, new, 1).encode("utf-8"))


def violations(root):
    with pytest.raises(BundleError) as caught:
        build(root)
    return str(caught.value)
