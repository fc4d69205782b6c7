"""A run's result as Markdown for people, and how it is found again in a message.

What comes from the program is shown letter for letter inside a fence that it cannot
close. Outside of a fence everything is escaped.
"""

import re
from collections.abc import Iterable, Sequence

from sandbox_core.hints import hint_for
from sandbox_core.models import KeptText, RunResult
from sandbox_core.outcome import Outcome
from sandbox_core.streams import shorten
from sandbox_core.visible import visible_kept, visible_text

__all__ = [
    "escape_markdown",
    "fenced",
    "interrupted_text",
    "render_for_chat",
    "result_section",
    "running_text",
    "strip_results",
]

_HEADING = "**Run code** · "
_VALUE_LABEL = "Value:"
_NOTHING_PRINTED = "The program printed nothing."
_INTERRUPTED = "The run was interrupted by a restart of Open WebUI. Start it again."

_OUTCOME_WORDS = {
    Outcome.SANDBOX_ERROR: "could not run",
    Outcome.CANCELLED: "stopped",
    Outcome.MEMORY_LIMIT: "memory limit",
    Outcome.TIMEOUT: "timed out",
    Outcome.OUTPUT_LIMIT: "output limit",
    Outcome.PROCESS_LIMIT: "process limit",
    Outcome.DISK_LIMIT: "disk limit",
    Outcome.COMPILE_ERROR: "does not compile",
    Outcome.FAILED: "failed",
    Outcome.OK: "ok",
}

# Open WebUI shows entities such as `&amp;` as they are, so it must be backslashes. But it
# takes `\(` and `\[` for formulas, and breaks lines before `\\b`: links are broken at their
# `]` alone, and a backslash of the text becomes a character that looks like one.
_MARKDOWN = re.compile(r"[`*_{\]<>#|~$&]|^[-+=:]")
_LIST_NUMBER = re.compile(r"^\d+(?=[.)])")
_BACKSLASH_LIKE = "\u2216"  # of the look-alikes the one that most fonts have
_BACKTICKS = re.compile(r"`{3,}")

_FENCE_PATTERN = r"(`{3,})text\n(?:[^\n]*\n)*?\1[ \t]*(?=\n|\Z)"
_RESULT = re.compile(
    rf"^{re.escape(_HEADING)}[^\n]*(?:\n(?![ \t]*\n|[^\n]*(?:`{{3}}|~{{3}}))[^\n]+)*"
    rf"(?:\n+(?:{_VALUE_LABEL}\n+)?{_FENCE_PATTERN})*",
    re.MULTILINE,
)


def escape_markdown(text: str) -> str:
    """Any text as one line of Markdown that shows it and does nothing else.

    Not letter for letter: white space is one blank, a backslash a look-alike.
    """
    line = " ".join(visible_text(text).split()).replace("\\", _BACKSLASH_LIKE)
    return _LIST_NUMBER.sub(r"\g<0>\\", _MARKDOWN.sub(r"\\\g<0>", line))


def fenced(text: str) -> str:
    """Text in a fence that is longer than any inside it; ends with a line end."""
    shown = visible_text(text)
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=2)
    fence = "`" * (longest + 1)
    end = "" if shown.endswith("\n") else "\n"
    return f"{fence}text\n{shown}{end}{fence}\n"


def render_for_chat(
    result: RunResult,
    label: str,
    shown_bytes: int = 64 * 1024,
    notes: Sequence[str] = (),
) -> str:
    """Markdown to append to the answer. ``label`` names what ran, in words of ours.

    ``shown_bytes`` limits output and value each, in bytes of UTF-8. ``notes`` come after
    those of the result, one line each.
    """
    told = [escape_markdown(line) for line in (result.message, *result.notes, *notes)]
    lines = [told[0], hint_for(result), *told[1:]]
    output = str(shorten(visible_kept(result.output), shown_bytes))
    silent = not (output or result.value or result.displays)
    if silent and result.outcome is Outcome.OK:
        lines.append(_NOTHING_PRINTED)
    parts = [result_section(f"{label} · {_result_ending(result)}", lines)]
    if output:
        parts.append(fenced(output))
    if result.value:
        value = shorten(KeptText(visible_text(result.value)), shown_bytes)
        parts.append(f"{_VALUE_LABEL}\n\n{fenced(str(value))}")
    return "\n".join(parts)


def result_section(heading: str, lines: Iterable[str]) -> str:
    """The head of a part of a result: our heading, and lines of Markdown right under it."""
    shown = [line for line in lines if line]
    return "\n".join(["", _HEADING + heading, *shown, ""])


def running_text(label: str, preview: str = "") -> str:
    """Markdown for a run that has begun, to be replaced by its result; ``preview`` is the
    end of its output so far."""
    text = result_section(f"{label} · running…", [])
    return f"{text}\n{fenced(preview)}" if preview else text


def interrupted_text() -> str:
    """Markdown for a run that a restart of Open WebUI cut off."""
    return result_section("interrupted", [_INTERRUPTED])


def strip_results(markdown: str) -> str:
    """The text without the result sections that this module once appended to it."""
    return _RESULT.sub("", markdown)


def _result_ending(result: RunResult) -> str:
    words = _OUTCOME_WORDS[result.outcome]
    if result.outcome is Outcome.FAILED and result.shell_exit_code is not None:
        words += f" (exit {result.shell_exit_code})"
    # A run that never began took no time.
    return f"{words} · {result.seconds:.2f} s" if result.seconds else words
