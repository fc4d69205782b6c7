#!/usr/bin/env python3
"""Keeps the tables in README.md and docs/ in step with the code.

python scripts/docs_tables.py            fills every region between the markers
                                         <!-- table: NAME --> and <!-- end table -->
python scripts/docs_tables.py --check    only compares, and fails when one is out of step
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from codebox.settings import Settings, variable_of  # noqa: E402
from owui_plugin.settings import (  # noqa: E402
    LIMIT_OF_VALVE,
    describe_allowed,
    environment_name,
)
from owui_plugin.valves import (  # noqa: E402
    ActionValves,
    CommonValves,
    EveryValve,
    PersonalValves,
)
from sandbox_core.language import Language  # noqa: E402
from sandbox_core.languages import LANGUAGES  # noqa: E402
from sandbox_core.limits import limit_records  # noqa: E402

__all__ = ["TABLES", "TableError", "fill_tables", "run"]

COMMAND = "python scripts/docs_tables.py"
Row = tuple[str, ...]
_MARKER = re.compile(r"^<!-- (?:table: (?P<name>[\w-]+)|end table) -->$", re.MULTILINE)


class TableError(Exception):
    """The markers of a document are at fault; the message has file, line and remedy."""


def limits_table() -> str:
    """What a run may use: one row per limit."""
    valves = {limit: valve for valve, limit in LIMIT_OF_VALVE.items()}
    rows = [
        (
            f"`{valves[record.name]}`",
            _with_unit(record.default, record.unit),
            f"{record.low:g} to {_with_unit(record.high, record.unit)}",
            _capitalised(record.text),
        )
        for record in limit_records()
    ]
    return _table(("Valve", "Default", "Range", "Limits the"), rows)


def valves_table() -> str:
    """All valves of both plugins, and those that each user has."""
    rows = [
        (
            f"`{name}`",
            _home_of(name),
            _default(field.default),
            describe_allowed(name),
            _code(environment_name(name)),
            field.description or "",
        )
        for name, field in EveryValve.model_fields.items()
    ]
    rows += [
        (
            f"`{name}`",
            "each user",
            _default(field.default),
            "",
            "",
            field.description or "",
        )
        for name, field in PersonalValves.model_fields.items()
    ]
    return _table(
        ("Valve", "Of", "Default", "Allowed", "Environment variable", "Meaning"), rows
    )


def languages_table() -> str:
    """What can be run, and how a block says so."""
    rows = [
        (
            language.title,
            language.version,
            _code(language.image),
            _codes(language.name, *language.aliases),
            _codes(*language.transcripts),
            _commands(language),
        )
        for language in LANGUAGES
    ]
    head = ("Language", "Version", "Image", "Fence words", "Transcripts", "Run as")
    return _table(head, rows)


def codebox_table() -> str:
    """The settings of the service: one row per variable."""
    rows = [
        (
            _code(variable_of(name)),
            _service_default(field),
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
        if name != "images"
    ]
    return _table(("Variable", "Default", "Meaning"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "limits": limits_table,
    "valves": valves_table,
    "languages": languages_table,
    "codebox": codebox_table,
}


def fill_tables(text: str, path: str) -> tuple[str, set[str]]:
    """A document with its regions filled, and the names of its tables.

    Raises TableError for a table that does not exist and for markers that do not pair.
    """
    parts: list[str] = []
    names: set[str] = set()
    copied, open_name = 0, None
    for marker in _MARKER.finditer(text):
        name = marker["name"]
        place = f"{path}:{text.count(chr(10), 0, marker.start()) + 1}"
        if (name is None) == (open_name is None):
            raise TableError(f"{place}: Close each “table:” with one “end table”.")
        if name is None:
            parts.append(f"\n\n{TABLES[str(open_name)]()}\n\n")
        elif name in TABLES:
            parts.append(text[copied : marker.end()])
            names.add(name)
        else:
            known = ", ".join(TABLES)
            raise TableError(f"{place}: There is no table {name}. Use one of: {known}.")
        copied = marker.end() if name else marker.start()
        open_name = name
    if open_name is not None:
        raise TableError(f"{path}: The table {open_name} has no “end table”.")
    return "".join([*parts, text[copied:]]), names


def run(root: Path, check: bool) -> Iterator[str]:
    """Fills (or only compares) all documents; gives one sentence for each that differs.

    Raises TableError as fill_tables does, and when a table is in no document at all.
    """
    seen: set[str] = set()
    for path in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if not path.is_file():
            continue
        name = path.relative_to(root).as_posix()
        current = path.read_text("utf-8")
        filled, names = fill_tables(current, name)
        seen |= names
        if filled == current:
            continue
        if check:
            yield f"The tables of {name} are out of step with the code. Run: {COMMAND}"
        else:
            path.write_text(filled, "utf-8")
            yield f"{name} written."
    if missing := TABLES.keys() - seen:
        raise TableError(
            f"No document has the table {', '.join(sorted(missing))}: put its markers, "
            "“<!-- table: NAME -->” and “<!-- end table -->”, into README.md or docs/."
        )


def _table(head: Row, rows: Sequence[Row]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |"
        for line in lines
    )


def _commands(language: Language) -> str:
    command = language.command_for(language.self_test.code, language.file_name, "build")
    return ", then ".join(
        _code(" ".join(argv)) for argv in (command.compile_argv, command.argv) if argv
    )


def _home_of(valve: str) -> str:
    if valve in CommonValves.model_fields:
        return "both"
    return "button" if valve in ActionValves.model_fields else "tool"


def _default(value: Any) -> str:
    if value == "":
        return "empty"
    return _code(str(value).lower() if isinstance(value, bool) else str(value))


def _service_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    no_text = field.default is None or isinstance(field.default, SecretStr)
    return "empty" if no_text else _default(field.default)


def _with_unit(number: float, unit: str) -> str:
    return f"{number:g} {'CPU' if (number, unit) == (1, 'CPUs') else unit}".strip()


def _capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _codes(*texts: str) -> str:
    return ", ".join(map(_code, texts))


def main() -> int:
    """Runs the command line; 1 when a document is at fault or out of step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    try:
        sentences = list(run(ROOT, check))
    except TableError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(sentences or ["All tables are in step with the code."]))
    return 1 if check and sentences else 0


if __name__ == "__main__":
    sys.exit(main())
