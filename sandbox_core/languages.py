"""The languages that a sandbox can run, and how they are found by name.

The same records feed the block parser, the tools, the doctor, the docs and the tests. An
administrator can add some (language_records.py); they are known in the whole process.
"""

import re
from collections.abc import Sequence

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
    "known_languages",
    "language_named",
    "use_added_languages",
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


class _KnownLanguages:
    """Records, and the words by which they are found."""

    def __init__(self, languages: tuple[Language, ...]) -> None:
        self.languages = languages
        self.by_word = {
            word: entry for entry in languages for word in (entry.name, *entry.aliases)
        }
        self.by_transcript = {
            word: entry for entry in languages for word in entry.transcripts
        }
        self.by_interpreter = {
            word: entry for entry in languages for word in entry.interpreters
        }


# One entry, replaced as a whole: a thread that looks something up sees the old one or the new one.
_in_use = [_KnownLanguages(LANGUAGES)]
_VERSIONED = re.compile(r"([a-z+]+)\d+(?:\.\d+)*")
_INTERPRETER_LINE = re.compile(
    r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:(?:-\S+|\w+=\S*)[ \t]+)*(?:\S*/)?)?([^\s/]+)"
)


def known_languages() -> tuple[Language, ...]:
    """All languages, the added ones last."""
    return _in_use[0].languages


def use_added_languages(added: Sequence[Language]) -> None:
    """From now on these are known, too, in place of those added before."""
    languages = (*LANGUAGES, *added)
    if languages != known_languages():
        _in_use[0] = _KnownLanguages(languages)


def find_language(word: str) -> Language | None:
    """The language that a fence word or alias means, case-blind; None when there is none.

    A version after the word is fine (``python3.12``); a longer word is not (``pythonic``).
    """
    return _find_word(_in_use[0].by_word, word)


def find_transcript(word: str) -> Language | None:
    """The language whose prompts a fence word announces (``console``), case-blind."""
    return _in_use[0].by_transcript.get(word.strip().lower())


def find_interpreter(code: str) -> Language | None:
    """The language of the ``#!`` line that the code begins with; None when there is none
    or its interpreter is not known here."""
    line = _INTERPRETER_LINE.match(code)
    return _find_word(_in_use[0].by_interpreter, line[1]) if line else None


def language_named(word: str) -> Language:
    """As find_language, but raises InvalidRequest, naming what there is, when unknown."""
    language = find_language(word)
    if language is None:
        names = ", ".join(entry.name for entry in known_languages())
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
