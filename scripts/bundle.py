#!/usr/bin/env python3
"""Builds the two files that administrators paste into Open WebUI from their sources.

    python scripts/bundle.py            writes open-webui/functions/ and open-webui/tools/
    python scripts/bundle.py --check    only compares, and fails when a file is out of step

The output depends on the sources and on Black's version alone: no dates, no paths.
"""

import argparse
import ast
import hashlib
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import black
from bundle_payload import embed_programs, read_programs
from bundle_source import (
    BundleError,
    SourceModule,
    Violation,
    dialect_violations,
    find_project_import,
    module_path,
    phrase_violations,
    read_module,
)

__all__ = ["PLUGINS", "Plugin", "build", "run"]

COMMAND = "python scripts/bundle.py"
AUTHOR = "The authors of Run code"
OLDEST_OPEN_WEBUI = "0.9.6"
PLAY_TRIANGLE = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' "
    "stroke='black' stroke-width='2.3' stroke-linejoin='round'>"
    "<path d='M7 4.5v15l12-7.5z'/></svg>"
)


@dataclass(frozen=True)
class Plugin:
    """One generated file: its entry module, where it goes, and what its header says."""

    entry: str
    target: str
    description: str
    icon: str = ""


PLUGINS = (
    Plugin(
        entry="owui_plugin.action",
        target="open-webui/functions/run_code.py",
        description="A button under every answer that runs its code in a gVisor sandbox.",
        icon=PLAY_TRIANGLE,
    ),
    Plugin(
        entry="owui_plugin.tool",
        target="open-webui/tools/run_code.py",
        description="Lets the model run code in a gVisor sandbox and read its output.",
    ),
)


def build(root: Path) -> dict[str, str]:
    """The text of each generated file by its path below ``root``, the project's folder.

    Raises BundleError with everything that is wrong with the sources.
    """
    bundles = {plugin: _ordered_modules(root, plugin.entry) for plugin in PLUGINS}
    programs = read_programs(root)
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    # One hash over the sources of both: it tells whether the two are of the same build.
    digest = _digest([*bundles.values()], programs)
    build_id = f"{project['version']}+{digest[:12]}"
    bundles = {
        plugin: [embed_programs(module, programs, build_id) for module in modules]
        for plugin, modules in bundles.items()
    }
    found = {
        str(violation): violation
        for modules in bundles.values()
        for violation in _violations(modules)
    }
    if found:
        raise BundleError(list(found.values()))
    return {
        plugin.target: _render(plugin, modules, project, digest)
        for plugin, modules in bundles.items()
    }


def _ordered_modules(root: Path, entry: str) -> list[SourceModule]:
    """The entry module and all that it imports, each after what it imports itself."""
    ordered: dict[str, SourceModule] = {}
    waiting: list[str] = []

    def visit(name: str, importer: SourceModule | None) -> None:
        if name in ordered:
            return
        if importer and name in waiting:
            chain = " → ".join([*waiting[waiting.index(name) :], name])
            line = find_project_import(importer, name)
            sentence = f"These modules import each other in a circle: {chain}."
            raise BundleError([Violation(importer.path, line, sentence)])
        if importer and not (root / module_path(name)).is_file():
            line = find_project_import(importer, name)
            sentence = f"There is no module {name}: correct the import."
            raise BundleError([Violation(importer.path, line, sentence)])
        waiting.append(name)
        module = read_module(root, name)
        for node in module.project_imports:
            if node.module and "." in node.module and not node.level:
                visit(node.module, module)
        ordered[name] = module
        waiting.remove(name)

    visit(entry, None)
    return list(ordered.values())


def _digest(bundles: list[list[SourceModule]], programs: dict[str, str]) -> str:
    texts = {module.path: module.text for modules in bundles for module in modules}
    digest = hashlib.sha256()
    for name, text in sorted((texts | programs).items()):
        data = text.encode("utf-8")
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()


def _violations(modules: list[SourceModule]) -> Iterator[Violation]:
    for module in modules:
        yield from dialect_violations(module, is_entry=module is modules[-1])
    yield from _unknown_names(modules)
    yield from _collisions(modules)


def _unknown_names(modules: list[SourceModule]) -> Iterator[Violation]:
    names = {module.name: module.names for module in modules}
    for module in modules:
        for node in module.project_imports:
            for alias in node.names:
                if alias.name not in names.get(node.module or "", {alias.name}):
                    sentence = (
                        f"{node.module} does not define {alias.name} itself: import it from "
                        "the module that does."
                    )
                    yield Violation(module.path, node.lineno, sentence)


def _collisions(modules: list[SourceModule]) -> Iterator[Violation]:
    """Top-level names that would mean two things once all modules share one namespace."""
    owners: dict[str, tuple[str, str]] = {}
    for module in modules:
        for name, meaning, line in _bindings(module):
            place = f"{module.path}:{line}"
            first_meaning, first_place = owners.setdefault(name, (meaning, place))
            if first_meaning != meaning:
                sentence = (
                    f"The top-level name {name} is also {first_meaning} ({first_place}): "
                    "rename one, for all modules share the bundle's names."
                )
                yield Violation(module.path, line, sentence)


def _bindings(module: SourceModule) -> Iterator[tuple[str, str, int]]:
    for node in module.outside_imports:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                origin = f"imported from {node.module}"
                yield alias.name, origin, node.lineno
            else:
                top = alias.name.partition(".")[0]
                yield top, f"the module {top}", node.lineno
    for name, line in module.names.items():
        yield name, f"defined in {module.name}", line


def _render(
    plugin: Plugin, modules: list[SourceModule], project: dict[str, Any], digest: str
) -> str:
    head = [_frontmatter(plugin, project), _file_notes(modules, project, digest)]
    head.append(_merged_imports(modules))
    # As Black formats it, or Open WebUI's editor would. The modules are formatted already.
    text = black.format_str("\n\n".join(head), mode=black.Mode())
    text += "".join(f"\n{_module_part(module)}\n" for module in modules)
    violations = phrase_violations(plugin.target, text)
    violations += _changed_meaning(plugin, modules, text)
    if violations:
        raise BundleError(violations)
    return text


def _frontmatter(plugin: Plugin, project: dict[str, Any]) -> str:
    license_text = project["license"]
    if isinstance(license_text, dict):
        license_text = license_text["text"]
    values = {
        "title": "Run code",
        "author": AUTHOR,
        "version": project["version"],
        "description": plugin.description,
        "required_open_webui_version": OLDEST_OPEN_WEBUI,
        "requirements": ", ".join(_requirements(project)),
        "license": license_text,
    }
    if plugin.icon:
        values["icon_url"] = "data:image/svg+xml," + quote(plugin.icon, safe="/:='")
    lines = [f"{key}: {value}" for key, value in values.items()]
    return "\n".join(['"""', *lines, '"""'])


def _requirements(project: dict[str, Any]) -> list[str]:
    dependencies: list[str] = project["dependencies"]
    for dependency in dependencies:
        if set(dependency) & set(",;"):
            sentence = (
                f"Open WebUI splits requirements at commas and knows no markers: write "
                f"“{dependency}” without “,” and “;”."
            )
            raise BundleError([Violation("pyproject.toml", 1, sentence)])
    return dependencies


def _file_notes(
    modules: list[SourceModule], project: dict[str, Any], digest: str
) -> str:
    width = max(len(module.path) for module in modules)
    notes = [
        "This file is generated. Edit the sources, not this file, and then run",
        f"    {COMMAND}",
        "",
        f"Version {project['version']}, SHA-256 of the sources of both plugins:",
        f"    {digest}",
        "",
        "The parts of this file, in their order:",
        *(f"    {module.path:<{width}}  {module.summary}" for module in modules),
    ]
    return "\n".join(f"# {note}".rstrip() for note in notes)


def _merged_imports(modules: list[SourceModule]) -> str:
    plain: set[str] = set()
    taken: dict[str, set[str]] = {}
    for node in (node for module in modules for node in module.outside_imports):
        names = {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            taken.setdefault(node.module or "", set()).update(names)
        else:
            plain |= names
    lines = [(name, f"import {name}") for name in sorted(plain)]
    lines += [
        (name, f"from {name} import {', '.join(sorted(names))}")
        for name, names in sorted(taken.items())
    ]
    ours = {name for name, _ in lines if _is_stdlib(name)}
    groups = (
        [line for name, line in lines if name in ours],
        [line for name, line in lines if name not in ours],
    )
    return "\n\n".join("\n".join(group) for group in groups if group)


def _is_stdlib(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names


def _module_part(module: SourceModule) -> str:
    """The module's text between markers, without imports and ``__all__``."""
    lines: list[str | None] = list(module.text.splitlines())
    for node in module.dropped:
        start = node.lineno - 1
        while start and lines[start - 1] == "":
            start -= 1
        stop = node.end_lineno or node.lineno
        lines[start:stop] = [None] * (stop - start)
    body = "\n".join(line for line in lines if line is not None).strip("\n")
    begin, end = (f"# ===== {word} {module.path} =====" for word in ("begin", "end"))
    blocks = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    gap = "\n\n\n" if isinstance(module.tree.body[-1], blocks) else "\n\n"
    return f"{begin}\n\n{body}{gap}{end}"


def _changed_meaning(
    plugin: Plugin, modules: list[SourceModule], text: str
) -> Iterator[Violation]:
    """Compares the bundle with its sources, statement by statement."""
    wanted = [
        (module, node)
        for module in modules
        for node in module.tree.body
        if node not in module.dropped
    ]
    got = ast.parse(text).body[-len(wanted) :]
    for (module, source), made in zip(wanted, got, strict=True):
        if ast.dump(source) != ast.dump(made):
            sentence = (
                f"This does not come out the same in {plugin.target}: run Black on the "
                "source, and keep one statement per line."
            )
            yield Violation(module.path, getattr(source, "lineno", 1), sentence)
            return


def require_pinned_black(root: Path) -> None:
    """Ends the program when Black is not of the version that Open WebUI's editor uses."""
    text = (root / "requirements-dev.txt").read_text("utf-8")
    pinned = re.search(r"^black==(\S+)", text, re.MULTILINE)
    installed = importlib.metadata.version("black")
    if pinned and pinned[1] != installed:
        sys.exit(
            f"Black {installed} is installed, but the files are made with {pinned[1]}: run "
            "“pip install -r requirements-dev.txt”."
        )


def run(root: Path, check: bool) -> Iterable[str]:
    """Writes (or only compares) the generated files; gives one sentence for each."""
    for path, text in build(root).items():
        target = root / path
        current = target.read_bytes() if target.is_file() else b""
        if current == text.encode("utf-8"):
            continue
        if check:
            yield f"{path} is out of step with its sources. Run: {COMMAND}"
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode("utf-8"))
            yield f"{path} written."


def main() -> int:
    """Runs the command line; 1 when the sources are at fault or a file is out of step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    root = Path(__file__).resolve().parent.parent
    require_pinned_black(root)
    try:
        sentences = list(run(root, check))
    except BundleError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(sentences or ["Both plugin files are in step with their sources."]))
    return 1 if check and sentences else 0


if __name__ == "__main__":
    sys.exit(main())
