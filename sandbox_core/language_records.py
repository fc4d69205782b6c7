"""Languages that an administrator adds: TOML or JSON, a table for each, by the language's name.

The fields of a table are those of ``_FIELDS``; docs/adding-a-language.md explains them. All faults
are told at once, because whoever mends a file wants to do it once.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandbox_core.errors import InvalidRequest
from sandbox_core.language import Language, SelfTest
from sandbox_core.languages import LANGUAGES

__all__ = ["is_records_file", "parse_language_records", "read_language_records"]

_LARGEST_FILE = 65536  # bytes
_MOST_LANGUAGES = 32
_WORD = re.compile(r"[a-z][a-z0-9+#_-]{0,29}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}\.[A-Za-z0-9]{1,12}")
_IMAGE = re.compile(r"[a-z0-9][\w./:@-]{0,254}", re.ASCII)
_LINE = "{line}"
_REQUIRED = ("file_name", "run", "version", "self_test")
# What each field must be, in words.
_FIELDS = {
    "title": "a text",
    "aliases": "a list of texts",
    "file_name": "a text",
    "compile": "a list of texts",
    "run": "a list of texts",
    "version": "a list of texts",
    "image": "a text",
    "joins": "true or false",
    "interpreters": "a list of texts",
    "line_reference": "a text",
    "self_test": "a table with the texts code and expected_stdout",
}


def is_records_file(setting: str) -> bool:
    """Whether a setting is the path of a file and not the records themselves."""
    return setting.startswith("/") and "\n" not in setting


def read_language_records(setting: str) -> str:
    """The records of a setting that is either their text or the path of their file.

    Raises InvalidRequest when the file cannot be read.
    """
    if not is_records_file(setting):
        return setting
    try:
        with Path(setting).open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            "The file with the records of languages cannot be read. Ask your administrator to "
            "correct the setting languages.",
            detail=repr(error),
        ) from error
    if len(data) > _LARGEST_FILE:
        raise InvalidRequest(
            f"The file with the records of languages has more than {_LARGEST_FILE} bytes. Ask "
            "your administrator to make it smaller."
        )
    return text


def parse_language_records(text: str) -> tuple[Language, ...]:
    """The languages of such a text, in its order; none for an empty one.

    Raises InvalidRequest with all faults.
    """
    records = _load(text)
    faults = [
        f"{name}: {fault}." for name in records for fault in _faults(name, records)
    ]
    if len(records) > _MOST_LANGUAGES:
        faults.append(f"There may be {_MOST_LANGUAGES} at most.")
    if faults:
        raise InvalidRequest(
            f"The records of languages have faults. {' '.join(faults)} Ask your administrator "
            "to correct the setting languages."
        )
    return tuple(_language(name, record) for name, record in records.items())


def _load(text: str) -> dict[str, Any]:
    try:
        is_json = text.lstrip().startswith("{")
        records = json.loads(text) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"The records of languages are no TOML and no JSON: {error}. Ask your "
            "administrator to correct the setting languages."
        ) from error
    return dict(records)


def _faults(name: str, records: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one record, each in words that a “.” may follow."""
    record = records[name]
    if not isinstance(record, dict):
        yield "this is no table"
        return
    for field in record.keys() - _FIELDS.keys():
        yield f"there is no field {str(field)[:40]}; there are {', '.join(_FIELDS)}"
    for field in _REQUIRED:
        if field not in record:
            yield f"{field} is missing"
    wrong = [field for field in record if not _has_its_type(field, record[field])]
    for field in wrong:
        yield f"{field} must be {_FIELDS[field]}"
    if not wrong:
        yield from _faults_of_words(name, records)
        yield from _faults_of_commands(record)


def _faults_of_words(name: str, records: dict[str, Any]) -> Iterator[str]:
    record = records[name]
    for word in (name, *record.get("aliases", ())):
        if not _WORD.fullmatch(word):
            yield f"“{word[:40]}” is no word of lower-case letters, digits, +, #, - and _"
        elif owner := _owner_of(word, name, records):
            yield f"“{word}” means {owner} already"
    if not _FILE_NAME.fullmatch(record.get("file_name", "main.x")):
        yield "file_name must be a name with an ending, such as main.awk"
    if record.get("image") and not _IMAGE.fullmatch(record["image"]):
        yield "image must be the name of an image"
    if record.get("line_reference", _LINE).count(_LINE) != 1:
        yield f"line_reference must have {_LINE} once, where an error has the line's number"


def _owner_of(word: str, name: str, records: dict[str, Any]) -> str:
    """The other language that has this word; empty when none has."""
    for entry in LANGUAGES:
        if word in (entry.name, *entry.aliases, *entry.transcripts):
            return entry.title
    for other, record in records.items():
        if other != name and isinstance(record, dict):
            aliases = record.get("aliases")
            if word == other or (isinstance(aliases, list) and word in aliases):
                return other
    return ""


def _faults_of_commands(record: dict[str, Any]) -> Iterator[str]:
    commands = {field: record.get(field) for field in ("compile", "run", "version")}
    for field, argv in commands.items():
        if argv is not None and not (argv and all(argv)):
            yield f"{field} must have words, none of them empty"
    compiled, run = record.get("compile", []), record.get("run", [])
    if not any("{source}" in word for word in (*compiled, *run)):
        yield "no command has {source}, the path of the program's file"
    if compiled and not any("{build}" in word for word in compiled):
        yield "compile has no {build}, the folder for what it makes"
    if not compiled and any("{build}" in word for word in run):
        yield "run has {build}, and there is no compile"


def _has_its_type(field: str, value: Any) -> bool:
    kind = _FIELDS.get(field)
    if kind == "a text":
        return isinstance(value, str)
    if kind == "a list of texts":
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if kind == "true or false":
        return isinstance(value, bool)
    if field == "self_test":
        return (
            isinstance(value, dict)
            and value.keys() == {"code", "expected_stdout"}
            and all(isinstance(text, str) for text in value.values())
        )
    return True  # an unknown one is told as such


def _language(name: str, record: dict[str, Any]) -> Language:
    return Language(
        name=name,
        title=record.get("title") or name.capitalize(),
        aliases=tuple(record.get("aliases", ())),
        file_name=record["file_name"],
        argv=tuple(record["run"]),
        version_argv=tuple(record["version"]),
        self_test=SelfTest(**record["self_test"]),
        image=record.get("image", ""),
        version="",
        compile_argv=tuple(record.get("compile", ())),
        joins=record.get("joins", False),
        interpreters=tuple(record.get("interpreters", ())),
        line_reference=_pattern(record.get("line_reference", "")),
    )


def _pattern(line_reference: str) -> str:
    before, _, after = line_reference.partition(_LINE)
    return rf"{re.escape(before)}(\d+){re.escape(after)}" if line_reference else ""
