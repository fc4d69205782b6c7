"""What a run made and showed as Markdown: pictures, players, links, the start of small texts.

Open WebUI's Markdown makes a player of an HTML block ``<audio>`` or ``<video>`` whose content
is the address. Every name is shown escaped, short in its middle, with its ending.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from owui_plugin.file_names import short_name
from owui_plugin.file_store import ARCHIVE_ABOVE, KeptFile, KeptFiles
from owui_plugin.media_types import is_audio, is_image, is_video
from owui_plugin.render import escape_markdown, fenced, result_section
from sandbox_core.models import SkippedFile
from sandbox_core.outcome import Outcome

__all__ = ["deleted_note", "file_address", "file_chips", "render_files", "size_text"]

_MOST_PICTURES = 12
_MOST_PLAYERS = 3
_MOST_LINKS = 30
_MOST_NOT_KEPT = 10
_MOST_PREVIEWS = 2
_PREVIEWED_UP_TO = 4  # files; of more, the list is enough to read
_PREVIEW_LINES = 15
_PARTIAL = " from a run that did not finish, maybe incomplete"
_ENDED = (Outcome.OK, Outcome.FAILED)
_TITLES = {"output": "the whole output", "archive": "all files in one archive"}


def file_address(file_id: str, download: bool = False) -> str:
    """Where Open WebUI serves a stored file, to those who may read it."""
    return f"/api/v1/files/{file_id}/content" + ("?attachment=true" if download else "")


def size_text(size: int) -> str:
    """A size for people: bytes, KB or MB (of 1024)."""
    if size < 1024:
        return f"{size} bytes" if size != 1 else "1 byte"
    if size < 1 << 20:
        return f"{size / 1024:.1f} KB"
    return f"{size / (1 << 20):.1f} MB"


def render_files(
    kept: KeptFiles, skipped: Sequence[SkippedFile], outcome: Outcome
) -> str:
    """Markdown for what a run made; empty when that is nothing. ``skipped``: what the sandbox
    did not hand over and the store did not take."""
    if not kept.files and not skipped:
        return ""
    made = [file for file in kept.files if file.kind == "made"]
    shown = [file for file in kept.files if file.kind == "shown"]
    pictures = [file for file in (*shown, *made) if is_image(file.media)]
    pictures = pictures[:_MOST_PICTURES]
    lines = [_image(file) for file in pictures]
    # A figure that is there to see needs no link.
    lines += _links(
        [file for file in kept.files if file not in pictures or file in made]
    )
    lines += _skipped_lines(skipped)
    heading = _files_heading(len(shown), len(made), outcome)
    parts = [result_section(heading, lines)]
    parts += list(_players(made))[:_MOST_PLAYERS]
    if len(made) <= _PREVIEWED_UP_TO:
        parts += [_preview(file) for file in made if file.start][:_MOST_PREVIEWS]
    return "\n".join(parts)


def deleted_note(names: Sequence[str]) -> str:
    """A sentence on old files that made room for new ones; empty when none had to."""
    if not names:
        return ""
    shown = ", ".join(f"“{short_name(name, 40)}”" for name in names[:_MOST_NOT_KEPT])
    more = len(names) - _MOST_NOT_KEPT
    rest = f" and {more} more" if more > 0 else ""
    return f"To make room, your oldest files from runs were deleted: {shown}{rest}."


def file_chips(kept: KeptFiles) -> list[dict[str, Any]]:
    """The same files as entries of Open WebUI's ``files`` event, for a chat whose messages
    are stored nowhere."""
    return [_chip(file) for file in kept.files]


def _chip(file: KeptFile) -> dict[str, Any]:
    if is_image(file.media):
        address = file_address(file.file_id)
        return {"type": "image", "url": address, "name": short_name(file.name)}
    return {
        "type": "file",
        "id": file.file_id,
        "url": file.file_id,
        "name": short_name(file.name),
        "size": file.size,
        "content_type": file.media,
    }


def _files_heading(shown: int, made: int, outcome: Outcome) -> str:
    counts = ((shown, "shown", "shown"), (made, "file", "files"))
    named = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n]
    if not named:
        return "files"
    heading = " · ".join(named)
    return heading if outcome in _ENDED else heading + _PARTIAL


def _link_text(name: str) -> str:
    """A link text must not hold square brackets, not even escaped ones: round ones do."""
    return escape_markdown(short_name(name).replace("[", "(").replace("]", ")"))


def _image(file: KeptFile) -> str:
    return f"![{_link_text(file.name)}]({file_address(file.file_id)})"


def _links(files: Sequence[KeptFile]) -> list[str]:
    made = [file for file in files if file.kind == "made"]
    others = [file for file in files if file.kind != "made"]
    # With an archive at hand, nobody needs a hundred lines.
    most = _MOST_LINKS if len(made) > ARCHIVE_ABOVE else len(made)
    lines = [_link(file) for file in (*others, *made[:most])]
    if len(made) > most:
        lines.append(f"- and {len(made) - most} more, which are in the archive")
    return lines


def _link(file: KeptFile) -> str:
    about = f": {_TITLES[file.kind]}" if file.kind in _TITLES else ""
    address = file_address(file.file_id, download=True)
    return f"- [{_link_text(file.name)}]({address}) · {size_text(file.size)}{about}"


def _skipped_lines(skipped: Sequence[SkippedFile]) -> list[str]:
    """One line for each reason: a program may leave ten thousand things of a kind."""
    by_reason: dict[str, list[str]] = {}
    for entry in skipped:
        by_reason.setdefault(entry.reason, []).append(entry.name)
    lines = [
        f"- not kept: {_some_names(names)}{escape_markdown(reason)}"
        for reason, names in by_reason.items()
    ]
    return lines[:_MOST_NOT_KEPT]


def _some_names(names: Sequence[str]) -> str:
    named = [escape_markdown(short_name(name, 40)) for name in names if name]
    if not named:
        return ""
    shown = ", ".join(named[:_MOST_NOT_KEPT])
    more = len(named) - _MOST_NOT_KEPT
    return f"{shown} and {more} more: " if more > 0 else f"{shown}: "


def _players(files: Iterable[KeptFile]) -> Iterable[str]:
    for file in files:
        tag = "audio" if is_audio(file.media) else "video"
        if tag == "audio" or is_video(file.media):
            yield f"\n<{tag}>\n{file_address(file.file_id)}\n</{tag}>\n"


def _preview(file: KeptFile) -> str:
    text = file.start.decode("utf-8", "ignore").removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    cut = len(lines) > _PREVIEW_LINES or len(file.start) < file.size
    shown = "".join(lines[:_PREVIEW_LINES]).rstrip("\n") + ("\n…" if cut else "")
    start = ", its start" if cut else ""
    return f"\n{_link_text(file.name)}{start}:\n\n{fenced(shown)}"
