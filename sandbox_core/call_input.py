"""What models put around the code that they pass to a tool, taken off again."""

import re

from sandbox_core.errors import InvalidRequest
from sandbox_core.language import Language
from sandbox_core.languages import find_language, language_named

__all__ = ["read_call"]

_FENCED = re.compile(
    r"\s*(`{3,}|~{3,})[ \t]*([^\n`]*)\n(.*?)\n?[ \t]*(?:\1[`~]*)?\s*\Z", re.DOTALL
)
_BACKTICKED = re.compile(r"\s*(`{1,2})([^`\n]+)\1\s*")


def read_call(code: object, language: object) -> tuple[str, Language]:
    """The program and its language from a tool call's arguments, which nobody has checked.

    Takes a fence, or backticks around a single line, off the code. A fence that names a
    language wins over the argument's default, ``python``. Raises InvalidRequest for a
    language that there is not, or without code.
    """
    text = "" if code is None else str(code)
    if not text.strip():
        raise InvalidRequest("There is no code to run: pass the program as code.")
    named = language_named(str(language or "python"))
    if fenced := _FENCED.fullmatch(text):
        word = (fenced[2].split() or [""])[0]
        inside = find_language(word)
        return fenced[3] + "\n", inside if inside and named.name == "python" else named
    if backticked := _BACKTICKED.fullmatch(text):
        return backticked[2], named
    return text, named
