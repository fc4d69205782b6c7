"""What models put around the code that they pass to a tool, taken off again."""

import re

from sandbox_core.errors import InvalidRequest
from sandbox_core.language import Language
from sandbox_core.languages import find_language, language_named

__all__ = ["has_code", "no_code", "read_call"]

_FENCED = re.compile(
    r"\s*(`{3,}|~{3,})[ \t]*([^\n`]*)\n(.*?)\n?[ \t]*(?:\1[`~]*)?\s*\Z", re.DOTALL
)
_BACKTICKED = re.compile(r"\s*(`+)([^`\n]+)\1\s*")
_LONE_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[^`\n]*(?:`{3,}|~{3,})?\s*")
# Blanks, and what editors and browsers put in that nobody sees.
_NO_CODE = re.compile(r"[\s\ufeff\u200b\u2060]*")


def read_call(code: object, language: object) -> tuple[str, Language]:
    """The program and its language from a tool call's arguments, which nobody has checked.

    Takes a fence, or backticks around a single line, off the code. A fence that names a
    language wins over the argument's default, ``python``. Raises InvalidRequest for a
    language that there is not, or without code.
    """
    text = "" if code is None else str(code)
    named = language_named(str(language or "python"))
    if fenced := _FENCED.fullmatch(text):
        word = (fenced[2].split() or [""])[0]
        inside = find_language(word)
        text = fenced[3] + "\n"
        named = inside if inside and named.name == "python" else named
    elif backticked := _BACKTICKED.fullmatch(text):
        text = backticked[2]
    elif _LONE_FENCE.fullmatch(text):
        text = ""
    if not has_code(text):
        raise no_code()
    return text, named


def has_code(text: str) -> bool:
    """Whether there is anything to run: a program of blanks would end well and say nothing."""
    return not _NO_CODE.fullmatch(text)


def no_code() -> InvalidRequest:
    """What is said of a call without code."""
    return InvalidRequest("There is no code to run: pass the program as code.")
