"""The code blocks of a message, and which of them can run.

A CommonMark parser finds the fences. Never run: what Open WebUI recorded in the text
(reasoning, tool calls, code interpreter), our own earlier results, block quotes (they hold
somebody else's text), HTML comments, indented code, and code in the middle of a sentence.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from owui_plugin.render import strip_results
from owui_plugin.transcripts import begins_with_prompt, prompted_commands
from sandbox_core.errors import SandboxError
from sandbox_core.language import Language
from sandbox_core.languages import (
    find_interpreter,
    find_language,
    find_transcript,
    known_languages,
)
from sandbox_core.visible import visible_text

__all__ = [
    "INSTALLS_OFF_NOTE",
    "NOT_CLOSED_NOTE",
    "BlockKind",
    "CodeBlock",
    "MissingPackage",
    "blocks_label",
    "find_blocks",
    "is_install",
    "runnable",
    "why_nothing_runs",
]

NOT_CLOSED_NOTE = "The block was not closed; the answer may be cut."
INSTALLS_OFF_NOTE = "Installing packages is off, so the block that does it was not run."

_FIRST_LINE_WIDTH = 60

_LINE_END = re.compile(r"\r\n?")
_TAG_WORD = re.compile(r"\{?\s*\.?(\w[\w.+#-]*)")
_CLASS_WORD = re.compile(r"\{[^}]*?\.(\w[\w+-]*)")

_DETAILS_LINE = re.compile(r"</?(?:details|summary)\b", re.IGNORECASE)
_DETAILS_TAG = re.compile(
    r"<details\b(?:(?:[^>\"']|\"[^\"]*\"|'[^']*')*+(?:>|\Z)|[^>]*(?:>|\Z))|</details\s*>",
    re.IGNORECASE,
)
_TYPE_ATTRIBUTE = re.compile(r"\stype\s*=", re.IGNORECASE)

_INSTALL_COMMAND = re.compile(
    r"(?:sudo\s+)?[!%]?\s*(?:"
    r"(?:python[\d.]*\s+-m\s+)?pip[\d.]*\s+install|uv\s+(?:pip\s+install|add)"
    r"|(?:conda|mamba)\s+install|npm\s+(?:install|i|ci|add)|yarn\s+add"
    r"|pnpm\s+(?:add|install|i)|(?:apt|apt-get)\s+(?:-\S+\s+)*(?:install|update|upgrade)"
    r"|apk\s+add|(?:dnf|yum|brew)\s+install)\b"
)
_COMMAND_END = re.compile(r"\n|&&|;")


class MissingPackage(SandboxError):
    """A Python package that this plugin needs is not installed where it runs."""


class BlockKind(StrEnum):
    """What may be done with a block: run it, ask for its language first, or neither."""

    RUN = "run"
    ASK = "ask"
    NO = "no"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One fenced block. ``number`` counts the blocks of its kind in the message from 1.

    ``language`` is a canonical name, or empty; ``info`` is the text after the fence.
    ``code`` is the program: for a transcript its commands. ``closed``: the fence has an
    end. ``reason`` says, for a block that would run but for that, what is wrong with it.
    """

    kind: BlockKind
    language: str
    info: str
    code: str
    closed: bool = True
    reason: str = ""
    number: int = 0

    def first_line(self) -> str:
        """The first line that is not blank, short and harmless, for a dialog."""
        lines = (line.strip() for line in self.code.split("\n"))
        line = visible_text(next(filter(None, lines), ""))
        if len(line) <= _FIRST_LINE_WIDTH:
            return line
        return line[: _FIRST_LINE_WIDTH - 1] + "…"

    def in_language(self, name: str) -> Self:
        """This block, to be run in the language that somebody picked for it."""
        return replace(self, kind=BlockKind.RUN, language=name)


def find_blocks(markdown: str) -> list[CodeBlock]:
    """All fenced blocks of a message, in order. Takes any text.

    Raises MissingPackage when markdown-it-py is not installed: one sentence for the chat.
    It is imported here and not with this module, because an import that fails while Open
    WebUI loads a plugin makes it switch the plugin off.
    """
    text = strip_results(_LINE_END.sub("\n", markdown)).rstrip("\n") + "\n"
    counts: Counter[BlockKind] = Counter()
    blocks: list[CodeBlock] = []
    quotes = 0
    for token in _markdown_parser().parse(text):
        if token.type == "blockquote_open":
            quotes += 1
        elif token.type == "blockquote_close":
            quotes -= 1
        elif token.type == "fence":
            first, end = token.map
            closed = end - first - 1 > token.content.count("\n")
            block = _read_block(token.info, token.content, quotes > 0)
            counts[block.kind] += 1
            blocks.append(replace(block, closed=closed, number=counts[block.kind]))
    return blocks


def runnable(blocks: Sequence[CodeBlock]) -> list[CodeBlock]:
    """The blocks that can run as they are."""
    return [block for block in blocks if block.kind is BlockKind.RUN]


def why_nothing_runs(blocks: Sequence[CodeBlock]) -> str:
    """One sentence for a message without a runnable block."""
    if not blocks:
        return "There is nothing to run: this message has no code block."
    reason = next((block.reason for block in blocks if block.reason), "")
    if reason:
        return f"There is nothing to run: {reason}."
    words = ", ".join(language.name for language in known_languages())
    transcripts = ", ".join(
        language.transcripts[0]
        for language in known_languages()
        if language.transcripts
    )
    return (
        "There is nothing to run: no code block has a tag that can run. These can: "
        f"{words}; and {transcripts} for lines with prompts."
    )


def blocks_label(chosen: Sequence[CodeBlock], runnable_count: int) -> str:
    """What a run is of, in a few words: ``Python``, or ``block 2 of 3, python``."""
    languages = list(dict.fromkeys(block.language for block in chosen))
    if runnable_count < 2:
        return ", ".join(_language_title(name) for name in languages)
    numbers = ", ".join(str(block.number) for block in chosen)
    if len(chosen) == runnable_count:
        numbers = f"1–{runnable_count}"
    noun = "block" if len(chosen) == 1 else "blocks"
    return f"{noun} {numbers} of {runnable_count}, {', '.join(languages)}"


def is_install(block: CodeBlock) -> bool:
    """Whether a block does nothing but install packages."""
    code = block.code.replace("\\\n", " ")
    lines = [line.strip() for line in _COMMAND_END.split(code)]
    commands = [line for line in lines if line and not line.startswith("#")]
    return bool(commands) and all(map(_INSTALL_COMMAND.match, commands))


def _language_title(name: str) -> str:
    language = find_language(name)
    return language.title if language else name


def _read_block(info: str, content: str, quoted: bool) -> CodeBlock:
    block = CodeBlock(BlockKind.NO, "", info.strip(), content)
    word = _tag_of(block.info)
    if quoted or not content.strip():
        return block
    if not block.info:
        return _read_untagged(block)
    language = find_transcript(word)
    if language:
        return _read_transcript(block, language)
    language = find_language(word)
    if not language:
        return block
    if begins_with_prompt(language, content):
        return _read_transcript(block, language)
    return block.in_language(language.name)


def _read_untagged(block: CodeBlock) -> CodeBlock:
    if not block.code.startswith("#!"):
        return replace(block, kind=BlockKind.ASK)
    language = find_interpreter(block.code)
    return block.in_language(language.name) if language else block


def _read_transcript(block: CodeBlock, language: Language) -> CodeBlock:
    commands = prompted_commands(language, block.code)
    if not commands:
        return replace(
            block,
            reason=f"in a “{_tag_of(block.info)}” block only lines with a prompt are run, "
            "and there are none",
        )
    return replace(block.in_language(language.name), code=commands)


def _tag_of(info: str) -> str:
    """The word of an info string that may name a language: ``python title="x.py"``,
    ``python:main.py``, ``{.python .numberLines}``."""
    found = _TAG_WORD.match(info) or _CLASS_WORD.match(info)
    return found[1] if found else ""


def _markdown_parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingPackage(
            "The package markdown-it-py is missing on this server: ask your administrator "
            "to install it, then try again."
        ) from error
    parser = MarkdownIt("commonmark").disable("inline")
    parser.block.ruler.before(
        "html_block",
        "details",
        _pass_over_details,
        {"alt": ["paragraph", "reference", "blockquote"]},
    )
    return parser


def _pass_over_details(state: Any, first: int, end: int, silent: bool) -> bool:
    """Parser rule for ``details`` tags, as Open WebUI shows them.

    One with a type is its own record: passed over with all that is in it, fences included,
    to the end of the message if it is not closed. Of any other one just the line with the
    tag is passed over, so that code inside is found without a blank line before it.
    """
    position = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not _DETAILS_LINE.match(state.src, position):
        return False
    if silent:
        return True
    stop = _record_end(state.src, position)
    line = first + 1
    while line < end and state.bMarks[line] < stop:
        line += 1
    state.line = line
    return True


def _record_end(text: str, position: int) -> int:
    opening = _DETAILS_TAG.match(text, position)
    if not opening or not _TYPE_ATTRIBUTE.search(opening[0]):
        return position
    depth = 1
    for tag in _DETAILS_TAG.finditer(text, opening.end()):
        depth += -1 if tag[0].startswith("</") else 1
        if depth == 0:
            return tag.end()
    return len(text)
