"""Terminal transcripts: blocks that hold prompts, commands and output.

Only prompted commands run. A command goes on in lines with a continuation prompt, after a
backslash at its end, and up to the end word of its here-document.
"""

import re

from sandbox_core.language import Language

__all__ = ["begins_with_prompt", "prompted_commands"]

_HERE_DOCUMENT = re.compile(r"(?<!<)<<(-?)[ \t]*(['\"]?)(\w+)\2")
_OPEN_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\$")


def begins_with_prompt(language: Language, text: str) -> bool:
    """Whether the first line that is not blank is a prompted one; as a program of that
    language it could only fail."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return bool(language.prompts and re.match(language.prompts, first))


def prompted_commands(language: Language, text: str) -> str:
    """The commands of a transcript as one program; empty when nothing is prompted.

    Each line of it is where it was in the block, so that line numbers still fit: output
    lines are blank.
    """
    lines = text.split("\n")
    program = [""] * len(lines)
    index = 0
    while index < len(lines):
        prompted = re.match(language.prompts, lines[index])
        if not prompted:
            index += 1
            continue
        program[index] = prompted[1] or ""
        index = _copy_rest(language, lines, program, index)
    return "\n".join(program).rstrip("\n") + "\n" if any(program) else ""


def _copy_rest(
    language: Language, lines: list[str], program: list[str], first: int
) -> int:
    """Copies what belongs to the command at ``first``; gives the index after it."""
    index = first + 1
    while index < len(lines):
        end = _here_document_end(language, lines, program, index)
        continued = re.match(language.continuation, lines[index])
        if end:
            prefixed = re.match(language.continuation, lines[end - 1]) is not None
            for inner in range(index, end):
                program[inner] = _inner_line(language, lines[inner], prefixed)
            index = end
        elif continued:
            program[index] = continued[1] or ""
            index += 1
        elif _OPEN_BACKSLASH.search(program[index - 1]):
            program[index] = lines[index]
            index += 1
        else:
            break
    return index


def _here_document_end(
    language: Language, lines: list[str], program: list[str], index: int
) -> int:
    """Index after the here-document that the line before ``index`` opens; 0 if none."""
    opening = _HERE_DOCUMENT.search(program[index - 1])
    if not (language.here_documents and opening):
        return 0
    for later in range(index, len(lines)):
        if re.match(language.prompts, lines[later]):
            return 0
        line = _inner_line(language, lines[later], prefixed=True)
        if (line.lstrip("\t") if opening[1] else line) == opening[3]:
            return later + 1
    return 0


def _inner_line(language: Language, line: str, prefixed: bool) -> str:
    continued = re.match(language.continuation, line) if prefixed else None
    return (continued[1] or "") if continued else line
