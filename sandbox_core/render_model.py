"""A run's result as short labelled text for a model, never longer than its budget."""

from collections.abc import Iterable, Sequence

from sandbox_core.hints import hint_for
from sandbox_core.models import KeptText, RunResult
from sandbox_core.streams import shorten
from sandbox_core.visible import visible_kept, visible_text

__all__ = ["render_for_model", "render_refusal_for_model"]

_FACT_BYTES = 600
_LIST_BYTES = 550
_MOST_NOTES = 10

# Room for a section's label and for the line that says how much was left out.
_SECTION_BYTES = 80


def render_for_model(
    result: RunResult, budget_bytes: int = 16 * 1024, notes: Sequence[str] = ()
) -> str:
    """The tool result: facts first, then stdout, stderr and the value, head and tail.

    At most ``budget_bytes`` of UTF-8, which the text states when it left something out.
    """
    facts = _model_facts(result, notes)
    sections = {
        "stdout": visible_kept(result.stdout),
        "stderr": visible_kept(result.stderr),
        "value": KeptText(visible_text(result.value or "")),
    }
    whole = _model_text(facts, sections)
    if (
        not any(text.omitted for text in sections.values())
        and _utf8_size(whole) <= budget_bytes
    ):
        return whole
    facts.append(
        f"note: long output was cut, this text holds at most {budget_bytes} bytes."
    )
    room = (
        budget_bytes
        - _utf8_size(_model_text(facts, {}))
        - _SECTION_BYTES * len(sections)
    )
    sizes = [
        _utf8_size(text.head) + _utf8_size(text.tail) for text in sections.values()
    ]
    shares = _fair_shares(sizes, room)
    short = {
        name: shorten(text, share)
        for (name, text), share in zip(sections.items(), shares, strict=True)
    }
    text = _model_text(facts, short)
    return text.encode("utf-8")[:budget_bytes].decode("utf-8", "ignore")


def render_refusal_for_model(sentence: str) -> str:
    """The tool result that says why nothing was run."""
    return f"outcome: not_run\nmessage: {_model_line(sentence)}\n"


def _model_facts(result: RunResult, notes: Sequence[str]) -> list[str]:
    files = (f"{file.name} ({file.size} bytes)" for file in result.files)
    shown = (f"{entry.name} ({entry.size} bytes)" for entry in result.displays)
    skipped = (f"{entry.name} ({entry.reason})" for entry in result.skipped)
    exit_code = result.shell_exit_code
    facts = {
        "outcome": str(result.outcome),
        "exit_code": "" if exit_code is None else str(exit_code),
        "seconds": f"{result.seconds:.2f}",
        "message": result.message,
        "next": hint_for(result),
        "shown to the user": _listed_names(shown),
        "files": _listed_names(files),
        "not brought back": _listed_names(skipped),
    }
    lines = [f"{name}: {_model_line(text)}" for name, text in facts.items() if text]
    for note in [*result.notes, *notes][:_MOST_NOTES]:
        lines.append(f"note: {_model_line(note)}")
    return lines


def _model_text(facts: Iterable[str], sections: dict[str, KeptText]) -> str:
    parts = [f"{fact}\n" for fact in facts]
    for name, kept in sections.items():
        text = str(kept)
        if text:
            parts.append(f"{name}:\n{text}" + ("" if text.endswith("\n") else "\n"))
        elif name == "stdout":
            parts.append("stdout: (empty)\n")
    return "".join(parts)


def _listed_names(items: Iterable[str]) -> str:
    names = [_model_line(item) for item in items]
    shown: list[str] = []
    for name in names:
        if _utf8_size(", ".join([*shown, name])) > _LIST_BYTES:
            return ", ".join([*shown, f"and {len(names) - len(shown)} more"])
        shown.append(name)
    return ", ".join(shown)


def _fair_shares(sizes: Sequence[int], room: int) -> list[int]:
    """Room for each text: none gets more than it needs, what is left helps the others."""
    shares = [0] * len(sizes)
    smallest_first = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, index in enumerate(smallest_first):
        shares[index] = min(sizes[index], max(0, room) // (len(sizes) - done))
        room -= shares[index]
    return shares


def _model_line(text: str) -> str:
    short = visible_text(text).encode("utf-8")[:_FACT_BYTES].decode("utf-8", "ignore")
    return " ".join(short.split())


def _utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
