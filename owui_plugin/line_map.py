"""Blocks joined into the steps of a run, and their line numbers found again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from owui_plugin.blocks import CodeBlock
from sandbox_core.language import Language
from sandbox_core.languages import language_named
from sandbox_core.models import Step

__all__ = ["LineMap", "join_steps", "line_notes"]

_MOST_LINE_NOTES = 3


@dataclass(frozen=True, slots=True)
class _Span:
    """Lines ``first`` to ``last`` (from 1) of a step's program are a block's lines."""

    step: int
    first: int
    last: int
    block: int


class LineMap:
    """Tells which line of which block a line of a joined program is."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self._spans = tuple(spans)

    def locate(self, step: int, line: int) -> tuple[int, int] | None:
        """Block number and line in that block; None for a line that there is not."""
        for span in self._spans:
            if span.step == step and span.first <= line <= span.last:
                return span.block, line - span.first + 1
        return None

    def is_joined(self, step: int) -> bool:
        """Whether a step is of several blocks."""
        return sum(span.step == step for span in self._spans) > 1


def join_steps(blocks: Sequence[CodeBlock]) -> tuple[tuple[Step, ...], LineMap]:
    """The steps that run these blocks in order. Consecutive blocks of one language that
    joins are one step, so that names carry over as a reader expects.

    A block that must stand alone, by its language's pattern, is joined to nothing before it.
    Raises InvalidRequest for a block without a known language.
    """
    steps: list[Step] = []
    spans: list[_Span] = []
    for block in blocks:
        language = language_named(block.language)
        code = block.code if block.code.endswith("\n") else block.code + "\n"
        first = 1
        if steps and _joins_on(language, steps[-1], code):
            first = steps[-1].code.count("\n") + 1
            code = steps.pop().code + code
        steps.append(Step(language.name, code))
        spans.append(_Span(len(steps) - 1, first, code.count("\n"), block.number))
    return tuple(steps), LineMap(spans)


def line_notes(
    stderr: str, steps: Sequence[Step], line_map: LineMap, step: int
) -> tuple[str, ...]:
    """A few notes such as “Line 17 of main.py is line 3 of block 2.” for the places that
    the error output of a joined step names; the last ones, which are the innermost."""
    language = language_named(steps[step].language)
    if not (line_map.is_joined(step) and language.line_reference):
        return ()
    named = (int(line) for line in re.findall(language.line_reference, stderr))
    places = {line: line_map.locate(step, line) for line in named}
    file_name = language.file_for(steps[step].code)
    notes = [
        f"Line {line} of {file_name} is line {place[1]} of block {place[0]}."
        for line, place in places.items()
        if place
    ]
    return tuple(notes[-_MOST_LINE_NOTES:])


def _joins_on(language: Language, before: Step, code: str) -> bool:
    if not language.joins or before.language != language.name:
        return False
    alone = language.alone_pattern
    return not (alone and re.search(alone, code, re.MULTILINE))
