"""What an image has, as text for a model: short, filtered, and within a budget."""

from collections.abc import Iterable, Sequence

from sandbox_core.inventory import Inventory
from sandbox_core.languages import known_languages, language_named
from sandbox_core.languages_interpreted import PYTHON

__all__ = ["LISTING_BYTES", "list_languages_text", "list_packages_text", "matching"]

LISTING_BYTES = 4096


def matching(names: Iterable[str], wanted: str) -> list[str]:
    """The names that contain one of the words in ``wanted``, whatever case, ``-`` or ``_``;
    all of them without a word. As in Python's index, those signs are one."""
    words = [_plain(word) for word in wanted.replace(",", " ").split()]
    return [
        name
        for name in names
        if not words or any(word in _plain(name) for word in words)
    ]


def list_packages_text(
    found: Inventory, wanted: str, budget_bytes: int = LISTING_BYTES
) -> str:
    """Python's packages with their versions, those whose names match; at most so many bytes."""
    names = matching(found.packages, wanted)
    python = f"Python {found.languages.get(PYTHON.name, '')}".strip()
    if not names:
        return f"{python}: none of the {len(found.packages)} packages matches “{wanted[:60]}”.\n"
    listed = [f"{name} {found.packages[name]}".strip() for name in names]
    head = f"{python}, {len(names)} of {len(found.packages)} packages:\n"
    return _within(head, listed, budget_bytes)


def list_languages_text(
    versions: dict[str, str], wanted: str, budget_bytes: int = LISTING_BYTES
) -> str:
    """The languages with their versions and other names, those that match."""
    words = {
        entry.name: f"{entry.name} {' '.join(entry.aliases)} {entry.title}"
        for entry in known_languages()
        if entry.name in versions
    }
    names = [name for name in words if matching([words[name]], wanted)]
    if not names:
        return f"No language here matches “{wanted[:60]}”. There are: {', '.join(words)}.\n"
    listed = []
    for name in names:
        language = language_named(name)
        also = f" (also {', '.join(language.aliases)})" if language.aliases else ""
        listed.append(f"{name}: {language.title} {versions[name]}".rstrip() + also)
    return _within("", listed, budget_bytes)


def _within(head: str, lines: Sequence[str], budget_bytes: int) -> str:
    text, shown = head, 0
    rest = "and {} more: give a filter.\n"
    for line in lines:
        if len((text + line + rest).encode("utf-8")) + 8 > budget_bytes:
            break
        text += line + "\n"
        shown += 1
    left = len(lines) - shown
    return text + (rest.format(left) if left else "")


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
