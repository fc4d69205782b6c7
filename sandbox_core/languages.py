"""The languages that a sandbox can run, and how they are found by name.

The same records feed the block parser, the tool's enum, the doctor, the docs and the tests.
"""

import re

from sandbox_core.errors import InvalidRequest
from sandbox_core.language import Language
from sandbox_core.languages_compiled import C_LANGUAGE, CPP, GO, JAVA, KOTLIN, RUST
from sandbox_core.languages_interpreted import (
    BASH,
    JAVASCRIPT,
    LUA,
    PERL,
    PHP,
    PYTHON,
    R_LANGUAGE,
    RUBY,
    SQL,
    TYPESCRIPT,
)

__all__ = [
    "LANGUAGES",
    "find_interpreter",
    "find_language",
    "find_transcript",
    "language_named",
]

LANGUAGES = (
    PYTHON,
    BASH,
    JAVASCRIPT,
    TYPESCRIPT,
    C_LANGUAGE,
    CPP,
    GO,
    RUST,
    JAVA,
    KOTLIN,
    RUBY,
    PHP,
    PERL,
    LUA,
    R_LANGUAGE,
    SQL,
)

_BY_WORD = {
    word: language
    for language in LANGUAGES
    for word in (language.name, *language.aliases)
}
_BY_TRANSCRIPT = {
    word: language for language in LANGUAGES for word in language.transcripts
}
_BY_INTERPRETER = {
    word: language for language in LANGUAGES for word in language.interpreters
}
_VERSIONED = re.compile(r"([a-z+]+)\d+(?:\.\d+)*")
_INTERPRETER_LINE = re.compile(
    r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:(?:-\S+|\w+=\S*)[ \t]+)*(?:\S*/)?)?([^\s/]+)"
)


def find_language(word: str) -> Language | None:
    """The language that a fence word or alias means, case-blind; None when there is none.

    A version after the word is fine (``python3.12``); a longer word is not (``pythonic``).
    """
    return _find_word(_BY_WORD, word)


def find_transcript(word: str) -> Language | None:
    """The language whose prompts a fence word announces (``console``), case-blind."""
    return _BY_TRANSCRIPT.get(word.strip().lower())


def find_interpreter(code: str) -> Language | None:
    """The language of the ``#!`` line that the code begins with; None when there is none
    or its interpreter is not known here."""
    line = _INTERPRETER_LINE.match(code)
    return _find_word(_BY_INTERPRETER, line[1]) if line else None


def language_named(word: str) -> Language:
    """As find_language, but raises InvalidRequest, naming what there is, when unknown."""
    language = find_language(word)
    if language is None:
        names = ", ".join(entry.name for entry in LANGUAGES)
        raise InvalidRequest(
            f"There is no language “{word[:40]}” here. Use one of: {names}."
        )
    return language


def _find_word(table: dict[str, Language], word: str) -> Language | None:
    lowered = word.strip().lower()
    if lowered in table:
        return table[lowered]
    versioned = _VERSIONED.fullmatch(lowered)
    return table.get(versioned[1]) if versioned else None
