"""The payload module of a bundle: the sandbox programs, embedded as readable texts."""

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

from bundle_source import (
    BundleError,
    SourceModule,
    Violation,
    parse_module,
    phrase_violations,
)

__all__ = ["embed_programs", "read_programs"]

_PAYLOAD = "sandbox_core.payload"
_PAYLOAD_FILE = "sandbox_core/payload.py"
_SUFFIX = "_SOURCE"
# What a raw string in triple single quotes cannot give back byte by byte.
_UNFIT = {"'''": "three single quotes in a row", "\r": "a carriage return"}


def read_programs(root: Path) -> dict[str, str]:
    """The texts of the sandbox programs, by the names that the payload module gives them.

    The project's own payload module reads them, so that a bundle holds what the source tree
    runs: NAME_SOURCE is the text of name.py. Raises BundleError when a text is missing or
    cannot be embedded.
    """
    try:
        payload = runpy.run_path(str(root / _PAYLOAD_FILE))
    except OSError as error:
        sentence = f"A sandbox program cannot be read: {error}."
        raise BundleError([Violation(_PAYLOAD_FILE, 1, sentence)]) from None
    programs = {name: payload[name] for name in payload if name.endswith(_SUFFIX)}
    violations = [
        violation
        for name, text in programs.items()
        for violation in _text_violations(_program_path(name), text)
    ]
    if violations:
        raise BundleError(violations)
    return programs


def embed_programs(
    module: SourceModule, programs: dict[str, str], build_id: str
) -> SourceModule:
    """The payload module with the texts as constants; any other module as it is.

    Raises BundleError when the module offers a name that is neither a text nor BUILD_ID, or
    when a text would not come out of its string as it went in.
    """
    if module.name != _PAYLOAD:
        return module
    literals = {"BUILD_ID": f'"{build_id}"'}
    literals |= {name: f"r'''{text}'''" for name, text in programs.items()}
    if unknown := module.exports - literals.keys():
        sentence = f"The bundler cannot embed {', '.join(sorted(unknown))}."
        raise BundleError([Violation(module.path, 1, sentence)])
    lines = [f'"""{ast.get_docstring(module.tree)}"""']
    lines += [f"{name} = {literal}" for name, literal in literals.items()]
    embedded = parse_module(module.name, "\n\n".join(lines) + "\n")
    values = dict(_assigned_texts(embedded))
    if values != {"BUILD_ID": build_id, **programs}:
        sentence = "A program's text does not come out of its string as it went in."
        raise BundleError([Violation(module.path, 1, sentence)])
    return embedded


def _program_path(name: str) -> str:
    return f"sandbox_core/{name.removesuffix(_SUFFIX).lower()}.py"


def _text_violations(path: str, text: str) -> Iterator[Violation]:
    yield from phrase_violations(path, text)
    for part, words in _UNFIT.items():
        if part in text:
            line = text[: text.index(part)].count("\n") + 1
            sentence = f"This text is embedded in a raw string and cannot hold {words}."
            yield Violation(path, line, sentence)


def _assigned_texts(module: SourceModule) -> Iterator[tuple[str, str]]:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield ast.unparse(node.targets[0]), str(node.value.value)
