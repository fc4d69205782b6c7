"""Loads a plugin file the way Open WebUI 0.12 does, without Open WebUI.

Run as a program in a fresh interpreter, it loads one plugin file and then executes the
Python text on its stdin, in which ``plugin`` (the instance), ``module`` (its module, by now
gone from ``sys.modules``), ``frontmatter`` and ``load_plugin`` are defined:

    python -I tests/plugin/owui_loader.py function open-webui/functions/run_code.py < probe

The project's own packages cannot be imported there, whatever is installed.
"""

# Open WebUI's loader has this import too, and exec() hands it on to the plugin's text: every
# annotation of a plugin is a string there.
from __future__ import annotations

import os
import re
import sys
import tempfile
import types
import uuid
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["LoadedPlugin", "load_plugin"]

_OWN_PACKAGES = {"sandbox_core", "owui_plugin", "codebox"}
# Put together here, so that this file does not hold the phrases either.
_REWRITES = {
    f"from {word}": f"from open_webui.{word}"
    for word in ("utils", "apps", "main", "config")
}
# In the order in which Open WebUI looks for them.
_CLASS_NAMES = {"function": ("Pipe", "Filter", "Action", "Event"), "tool": ("Tools",)}


class LoadedPlugin(NamedTuple):
    """What Open WebUI keeps of a plugin file."""

    instance: Any
    kind: str
    frontmatter: dict[str, str]
    module: types.ModuleType


def load_plugin(content: str, family: str, plugin_id: str = "run_code") -> LoadedPlugin:
    """Executes a plugin file's text in a new module and makes its instance.

    ``family`` is ``function`` or ``tool``. Raises what the text raises, and LookupError when
    it has no plugin class.
    """
    for phrase, replacement in _REWRITES.items():
        content = content.replace(phrase, replacement)
    module = types.ModuleType(f"{family}_{plugin_id}_{uuid.uuid4().hex}")
    sys.modules[module.__name__] = module
    descriptor, path = tempfile.mkstemp()
    os.close(descriptor)
    try:
        Path(path).write_text(content, encoding="utf-8")
        module.__dict__["__file__"] = path
        exec(content, module.__dict__)
        for name in _CLASS_NAMES[family]:
            if hasattr(module, name):
                instance = getattr(module, name)()
                return LoadedPlugin(instance, name, read_frontmatter(content), module)
        raise LookupError(f"no class of {_CLASS_NAMES[family]} in the plugin file")
    finally:
        os.unlink(path)
        sys.modules.pop(module.__name__, None)


def read_frontmatter(content: str) -> dict[str, str]:
    """The ``key: value`` lines of a file whose first line is three double quotes."""
    lines = content.splitlines()
    if not lines or lines[0].strip() != '"""':
        return {}
    found = {}
    for line in lines[1:]:
        if '"""' in line:
            break
        if entry := re.match(r"\s*([A-Za-z_]+):\s*(.*?)\s*$", line):
            found[entry[1]] = entry[2]
    return found


class _OwnPackagesMissing(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in _OWN_PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _main() -> None:
    family, path = sys.argv[1:]
    sys.meta_path.insert(0, _OwnPackagesMissing())
    loaded = load_plugin(Path(path).read_text(encoding="utf-8"), family)
    probe = compile(sys.stdin.read(), "<probe>", "exec", dont_inherit=True)
    exec(
        probe,
        {
            "__name__": "probe",
            "plugin": loaded.instance,
            "module": loaded.module,
            "kind": loaded.kind,
            "frontmatter": loaded.frontmatter,
            "load_plugin": load_plugin,
        },
    )


if __name__ == "__main__":
    _main()
