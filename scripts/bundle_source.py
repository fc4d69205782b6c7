"""One source module as the bundler reads it, and the rules that bundled sources obey.

Bundled modules become one file that Open WebUI executes and then forgets: nothing can look a
module or a class up by its name afterwards. The rules keep that safe, and the bundler small.
"""

import ast
import builtins
import re
import symtable
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeGuard

__all__ = [
    "PROJECT_PACKAGES",
    "REWRITTEN_PHRASES",
    "BundleError",
    "SourceModule",
    "Violation",
    "dialect_violations",
    "find_project_import",
    "module_path",
    "parse_module",
    "phrase_violations",
    "read_module",
]

# Open WebUI replaces these texts in the whole file, strings and comments included. They are
# put together here so that no file of ours holds one.
REWRITTEN_PHRASES = tuple(
    f"from {word}" for word in ("utils", "apps", "main", "config")
)

PROJECT_PACKAGES = ("sandbox_core", "owui_plugin")
_LOADED_AT_ONCE = sys.stdlib_module_names | {"pydantic"}
# Open WebUI takes a file that has one of these names for another kind of plugin.
_PLUGIN_KINDS = frozenset({"Pipe", "Filter"})
_BUILTIN_NAMES = frozenset(dir(builtins))
_GONE_AFTER_LOAD = frozenset({"__file__", "__package__", "__path__", "__spec__"})
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

Finding = tuple[int, str]


@dataclass(frozen=True)
class Violation:
    """A broken rule: where it is, and what to do. ``str`` is ``file:line: sentence``."""

    path: str
    line: int
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.sentence}"


class BundleError(Exception):
    """The sources cannot be bundled; ``violations`` says why, one by one."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__("\n".join(map(str, violations)))
        self.violations = violations


@dataclass(frozen=True)
class SourceModule:
    """A parsed module. ``path`` is relative to the project's root, with slashes."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @cached_property
    def project_imports(self) -> list[ast.ImportFrom]:
        """The project imports at module level; the dialect allows no others."""
        return [
            node
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and _is_project(node)
        ]

    @cached_property
    def outside_imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The other imports at module level: they move to the top of the bundle."""
        return [
            node
            for node in self.tree.body
            if isinstance(node, _IMPORTS) and not _is_project(node)
        ]

    @cached_property
    def dropped(self) -> list[ast.stmt]:
        """The statements that do not go into the module's part of the bundle."""
        exports = [node for node in self.tree.body if _is_export_list(node)]
        return [*self.project_imports, *self.outside_imports, *exports]

    @cached_property
    def exports(self) -> set[str]:
        """The names in ``__all__``."""
        lists = [node for node in self.tree.body if _is_export_list(node)]
        return {name for node in lists for name in ast.literal_eval(node.value)}

    @cached_property
    def names(self) -> dict[str, int]:
        """Each top-level name that the module itself defines, with its line."""
        moved = {
            bound
            for node in (*self.project_imports, *self.outside_imports)
            for alias in node.names
            for bound in [(alias.asname or alias.name).partition(".")[0]]
        }
        table = symtable.symtable(self.text, self.path, "exec")
        found = {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_assigned()
            or (symbol.is_imported() and symbol.get_name() not in moved)
        }
        found |= _names_declared_global(table)
        return {name: _line_of(self.tree, name) for name in sorted(found - {"__all__"})}

    @cached_property
    def summary(self) -> str:
        """The first sentence of the module's docstring; empty when there is none."""
        paragraph = (ast.get_docstring(self.tree) or "").partition("\n\n")[0]
        return re.split(r"(?<=[.!?])\s", " ".join(paragraph.split()), maxsplit=1)[0]

    @cached_property
    def guards(self) -> list[ast.If]:
        """The ``if __name__ == "__main__":`` statements at module level."""
        return [
            node
            for node in self.tree.body
            if isinstance(node, ast.If)
            and ast.unparse(node.test) == "__name__ == '__main__'"
        ]


def module_path(name: str) -> str:
    """Path of a module below the project's root: ``a/b.py`` for ``a.b``."""
    return name.replace(".", "/") + ".py"


def read_module(root: Path, name: str) -> SourceModule:
    """Reads and parses one module. Raises BundleError when it is missing or no Python."""
    path = module_path(name)
    try:
        return parse_module(name, (root / path).read_bytes().decode("utf-8"))
    except FileNotFoundError:
        sentence = "This module is missing: the bundle is built around it."
        raise BundleError([Violation(path, 1, sentence)]) from None


def parse_module(name: str, text: str) -> SourceModule:
    """A module from its text. Raises BundleError when it is no Python."""
    path = module_path(name)
    try:
        compile(text, path, "exec", dont_inherit=True)  # finds more than parsing does
        return SourceModule(name, path, text, ast.parse(text, path))
    except SyntaxError as error:
        violation = Violation(
            path, error.lineno or 1, f"This is no Python: {error.msg}."
        )
        raise BundleError([violation]) from None


def find_project_import(module: SourceModule, name: str) -> int:
    """Line of the import of the project module ``name`` in ``module``."""
    return next(node.lineno for node in module.project_imports if node.module == name)


def phrase_violations(path: str, text: str) -> list[Violation]:
    """Where a text holds a phrase that Open WebUI would rewrite."""
    return [
        Violation(
            path,
            number,
            f"Open WebUI rewrites the text “{phrase}”, also in strings and comments: "
            "word it differently.",
        )
        for number, line in enumerate(text.splitlines(), start=1)
        for phrase in REWRITTEN_PHRASES
        if phrase in line
    ]


def dialect_violations(module: SourceModule, is_entry: bool) -> list[Violation]:
    """All that one module breaks of the dialect, in the order of its lines."""
    found = [finding for rule in _RULES for finding in rule(module)]
    found += _guard_findings(module, is_entry)
    violations = [Violation(module.path, line, text) for line, text in found]
    violations += phrase_violations(module.path, module.text)
    return sorted(violations, key=lambda violation: violation.line)


def _project_import_findings(module: SourceModule) -> Iterator[Finding]:
    wanted = "write “from package.module import Name”"
    for node in ast.walk(module.tree):
        if not isinstance(node, _IMPORTS) or not _is_project(node):
            continue
        if isinstance(node, ast.Import):
            yield node.lineno, f"A project module is imported whole: {wanted}."
        elif node.level:
            yield node.lineno, f"A relative import: {wanted}."
        elif "." not in (node.module or ""):
            yield node.lineno, f"An import of a package, not of a module: {wanted}."
        elif any(alias.name == "*" or alias.asname for alias in node.names):
            yield node.lineno, f"A star or an alias in a project import: {wanted}."
        elif node not in module.tree.body:
            yield node.lineno, "A project import below module level: move it to the top."


def _outside_import_findings(module: SourceModule) -> Iterator[Finding]:
    for node in _nodes_run_at_load(module.tree):
        if not isinstance(node, _IMPORTS) or _is_project(node):
            continue
        if any(alias.name == "*" or alias.asname for alias in node.names):
            yield node.lineno, (
                "A star or an alias at module level: import the plain name, because all "
                "modules share the bundle's imports."
            )
        for top in _imported_tops(node):
            if top == "__future__":
                yield node.lineno, "Remove this: a bundle has no __future__ imports."
            elif top not in _LOADED_AT_ONCE:
                yield node.lineno, (
                    f"{top} is imported at load, where a missing package would switch the "
                    "plugin off: import it inside the function that uses it."
                )


def _annotation_findings(module: SourceModule) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        annotations = [
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
        ]
        for annotation in filter(None, annotations):
            for text in _strings_in_annotation(annotation):
                yield text.lineno, (
                    f"The annotation {text.value!r} is a string, and after load nothing can "
                    "look it up: define the class earlier and use its name (or Self)."
                )


def _logger_findings(module: SourceModule) -> Iterator[Finding]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not _is_get_logger(node.func):
            continue
        name = node.args[0] if node.args else None
        fixed = isinstance(name, ast.Constant) and str(name.value).startswith(
            "run_code."
        )
        if not fixed:
            yield node.lineno, "Give this logger a fixed name that begins with “run_code.”."


def _module_name_findings(module: SourceModule) -> Iterator[Finding]:
    in_guards = {id(node) for guard in module.guards for node in ast.walk(guard.test)}
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Name) or id(node) in in_guards:
            continue
        if node.id in _GONE_AFTER_LOAD:
            yield node.lineno, f"{node.id} means nothing in a bundle: do without it."
        elif node.id == "__name__":
            yield node.lineno, "__name__ differs in every load: use a fixed text."


def _name_findings(module: SourceModule) -> Iterator[Finding]:
    lines = dict(module.names)
    for node in module.outside_imports:
        lines.update((alias.asname or alias.name, node.lineno) for alias in node.names)
    for name, line in lines.items():
        if name in _BUILTIN_NAMES:
            yield line, f"{name} would hide Python's own {name} in every module: rename it."
        elif name in _PLUGIN_KINDS:
            yield line, (
                f"Open WebUI would take the file for a {name} plugin: do without this name "
                "at module level."
            )


def _text_findings(module: SourceModule) -> Iterator[Finding]:
    if not module.summary:
        yield 1, "Begin the module with a docstring: its first sentence is the file map's."
    if "\r" in module.text:
        yield 1, "Save the file with Unix line ends."


def _guard_findings(module: SourceModule, is_entry: bool) -> Iterator[Finding]:
    wanted = "if __name__ == “__main__”"
    if not is_entry:
        for guard in module.guards:
            yield guard.lineno, f"Only the entry module may hold “{wanted}”: move it there."
    elif len(module.guards) != 1 or module.tree.body[-1] is not module.guards[0]:
        yield len(
            module.text.splitlines()
        ), f"End this entry module with one “{wanted}”."


_RULES = (
    _project_import_findings,
    _outside_import_findings,
    _annotation_findings,
    _logger_findings,
    _module_name_findings,
    _name_findings,
    _text_findings,
)


def _imported_tops(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").partition(".")[0]]
    return [alias.name.partition(".")[0] for alias in node.names]


def _is_project(node: ast.Import | ast.ImportFrom) -> bool:
    relative = isinstance(node, ast.ImportFrom) and node.level > 0
    return relative or any(top in PROJECT_PACKAGES for top in _imported_tops(node))


def _is_export_list(node: ast.stmt) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _is_get_logger(function: ast.expr) -> bool:
    return ast.unparse(function) in ("logging.getLogger", "getLogger")


def _nodes_run_at_load(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, _FUNCTIONS):
            yield child
            yield from _nodes_run_at_load(child)


def _strings_in_annotation(annotation: ast.expr) -> Iterator[ast.Constant]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield annotation
        return
    if isinstance(annotation, ast.Subscript):
        head = ast.unparse(annotation.value).rpartition(".")[2]
        if head == "Literal":
            return
        if head == "Annotated" and isinstance(annotation.slice, ast.Tuple):
            yield from _strings_in_annotation(annotation.slice.elts[0])
            return
    for child in ast.iter_child_nodes(annotation):
        if isinstance(child, ast.expr):
            yield from _strings_in_annotation(child)


def _names_declared_global(table: symtable.SymbolTable) -> set[str]:
    found: set[str] = set()
    for child in table.get_children():
        found |= {
            symbol.get_name()
            for symbol in child.get_symbols()
            if symbol.is_declared_global() and symbol.is_assigned()
        }
        found |= _names_declared_global(child)
    return found


def _line_of(tree: ast.Module, name: str) -> int:
    found = [node for node in ast.walk(tree) if _stored_name(node) == name]
    found.sort(key=lambda node: isinstance(node, ast.alias))  # a definition says more
    return int(getattr(found[0], "lineno", 1)) if found else 1


def _stored_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    return getattr(node, "name", None)
