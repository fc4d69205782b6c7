"""What holds for every module: who imports whom, how large it is, what it makes public."""

import ast
import sys
from pathlib import Path

import pytest
from bundle_source import PROJECT_PACKAGES, phrase_violations

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (*PROJECT_PACKAGES, "codebox")
CODE = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (*PACKAGES, "scripts", "tests")
    for path in (ROOT / folder).rglob("*.py")
)
LIBRARY = [path for path in CODE if path.startswith(PACKAGES)]
# They run inside the sandbox, as texts; there they are no modules of the project.
PROGRAMS = [
    path
    for path in LIBRARY
    if path.startswith(("sandbox_core/guest", "sandbox_core/launcher"))
]
PROGRAMS.remove("sandbox_core/guest_program.py")
MODULES = [
    path
    for path in LIBRARY
    if path not in PROGRAMS and not path.endswith("__init__.py")
]
LARGEST_MODULE = 400  # lines

# Each layer imports from itself and from those before it. A module of the core that is not
# named here is a pure one: values and decisions, no engine.
PURE = 4
LAYERS = {
    "sandbox_core.errors": 0,
    "sandbox_core.limits": 1,
    "sandbox_core.outcome": 2,
    "sandbox_core.models": 3,
    "sandbox_core.engines.base": 5,
    "sandbox_core.engines": 6,
    "sandbox_core.admission": 6,
    "sandbox_core.remote_runner": 6,
    "sandbox_core.boot": 6,
    "sandbox_core.runner": 6,
    "sandbox_core.pool": 6,
    "sandbox_core.installer": 6,
    "sandbox_core.installing_runner": 6,
    "sandbox_core.network_runner": 6,
    "sandbox_core.reaper": 6,
    "sandbox_core.terminal": 6,
    "sandbox_core.doctor": 7,
    "sandbox_core.self_proof": 7,
    "sandbox_core.network_proof": 7,
    "sandbox_core.__main__": 8,
    "owui_plugin": 9,
    "codebox": 9,
}
CORE_OUTSIDE = {"docker", "jwt", "requests", "urllib3"}
PLUGIN_OUTSIDE = CORE_OUTSIDE | {
    "pydantic",
    "markdown_it",
    "open_webui",
    "sqlalchemy",  # Open WebUI's own, to ask its database
    "starlette",
    "jwt",
}
SERVICE_OUTSIDE = CORE_OUTSIDE | {
    "dotenv",
    "fastapi",
    "httpx",
    "limits",
    "mcp",
    "prometheus_client",
    "pydantic",
    "redis",
    "starlette",
    "uvicorn",
}
OUTSIDE = {
    "sandbox_core": CORE_OUTSIDE,
    "owui_plugin": PLUGIN_OUTSIDE,
    "codebox": SERVICE_OUTSIDE,
}


def read(path):
    return (ROOT / path).read_text("utf-8")


def tree_of(path):
    return ast.parse(read(path), path)


def module_name(path):
    return path.removesuffix(".py").replace("/", ".")


def layer_of(module):
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        layer = LAYERS.get(".".join(parts[:length]))
        if layer is not None:
            return layer
    return PURE


def imports_of(path):
    """(line, module, names) of each import, wherever in the module it stands."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, []


def exports_of(path):
    lists = [
        node.value
        for node in tree_of(path).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert len(lists) == 1, f"{path} needs one __all__"
    return ast.literal_eval(lists[0])


def is_project(module):
    return module.partition(".")[0] in PACKAGES


@pytest.mark.parametrize("path", CODE)
def test_module_is_small(path):
    assert len(read(path).splitlines()) <= LARGEST_MODULE


@pytest.mark.parametrize("path", MODULES)
def test_imports_point_downwards(path):
    own = module_name(path)
    upward = [
        f"{path}:{line}: {own} must not import {module}"
        for line, module, _ in imports_of(path)
        if is_project(module) and layer_of(module) > layer_of(own)
    ]
    assert upward == []


def test_plugin_and_service_do_not_know_each_other():
    for path in MODULES:
        for line, module, _ in imports_of(path):
            pair = {path.partition("/")[0], module.partition(".")[0]}
            assert pair != {"owui_plugin", "codebox"}, f"{path}:{line}"


@pytest.mark.parametrize("path", MODULES)
def test_outside_packages_are_the_known_ones(path):
    known = OUTSIDE[path.partition("/")[0]] | sys.stdlib_module_names | set(PACKAGES)
    unknown = [
        f"{path}:{line}: {module}"
        for line, module, _ in imports_of(path)
        if module.partition(".")[0] not in known
    ]
    assert unknown == []


@pytest.mark.parametrize("path", PROGRAMS)
def test_sandbox_programs_need_only_python(path):
    own = {module_name(program) for program in PROGRAMS}
    for line, module, _ in imports_of(path):
        fine = module in own or module.partition(".")[0] in sys.stdlib_module_names
        assert fine, f"{path}:{line}: {module} is not in the sandbox"


@pytest.mark.parametrize("path", MODULES)
def test_names_taken_from_a_module_are_public_there(path):
    for line, module, names in imports_of(path):
        target = ROOT / (module.replace(".", "/") + ".py")
        if is_project(module) and target.is_file():
            private = set(names) - set(exports_of(target.relative_to(ROOT).as_posix()))
            assert not private, f"{path}:{line}: not in __all__ of {module}: {private}"


@pytest.mark.parametrize("path", MODULES)
def test_public_names_exist_and_are_documented(path):
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{path} needs a docstring"
    if path.endswith("__main__.py"):
        return
    exports = exports_of(path)
    assert exports == sorted(set(exports), key=sort_key)
    defined = {name: node for node in tree.body for name in names_defined(node)}
    assert set(exports) <= defined.keys()
    undocumented = [
        f"{path}:{node.lineno}: {name}"
        for name in exports
        for node in documentable(defined[name])
        if not ast.get_docstring(node)
    ]
    assert undocumented == []


def sort_key(name):
    """Constants, then classes, then the rest, as ruff sorts ``__all__``."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def names_defined(node):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def documentable(node):
    """The function or class, and the public methods of the class."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, kinds):
        yield node
    elif isinstance(node, ast.ClassDef):
        yield node
        for member in node.body:
            if isinstance(member, kinds) and not member.name.startswith("_"):
                yield member


@pytest.mark.parametrize("path", [*LIBRARY, "pyproject.toml"])
def test_no_phrase_that_open_webui_rewrites(path):
    assert [str(violation) for violation in phrase_violations(path, read(path))] == []


def test_imports_have_no_circle():
    graph = {
        module_name(path): {m for _, m, _ in imports_of(path) if is_project(m)}
        for path in MODULES
    }
    done = set()

    def visit(module, chain):
        assert module not in chain, " → ".join([*chain, module])
        if module not in done:
            for imported in graph.get(module, ()):
                visit(imported, (*chain, module))
            done.add(module)

    for module in graph:
        visit(module, ())
