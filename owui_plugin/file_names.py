"""Names of files: in the work folder, as a download, and shown. Pure functions.

A name from a program or a person is any text. In the work folder it stays what it is, as far
as a file system takes it; a download gets a name that is safe on every computer.
"""

import re
import unicodedata

__all__ = ["download_name", "short_name", "unused_name", "work_name"]

_LONGEST_BYTES = 255
_LONGEST_DOWNLOAD = 200
_LONGEST_SUFFIX = 20
_FORBIDDEN = frozenset('<>:"/\\|?*')
# Control characters, invisible ones, halves of characters, and ends of lines.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_DOUBLE_SUFFIX = re.compile(r"\.tar\.\w{1,4}$", re.IGNORECASE)
_UNNAMED = "file"


def work_name(untrusted_name: str) -> str:
    """The name that an attached file gets in the work folder: its own, without a path."""
    last = untrusted_name.replace("\0", "").rpartition("/")[2]
    name = last.encode("utf-8", "replace").decode()
    if name in ("", ".", ".."):
        return _UNNAMED
    return _shortened(name, _LONGEST_BYTES)


def unused_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of name_2, name_3, … that is not taken."""
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        mark = f"_{number}"
        stem, suffix = _split_suffix(_shortened(wanted, _LONGEST_BYTES - len(mark)))
        candidate = f"{stem}{mark}{suffix}"
    return candidate


def download_name(untrusted_path: str) -> str:
    """A name for a download: close to the file's own, and harmless everywhere."""
    last = untrusted_path.rpartition("/")[2]
    name = "".join("_" if _is_unsafe(character) else character for character in last)
    name = name.rstrip(". ")
    if not name or name[0] in ".- " or _DEVICE.match(name):
        name = "_" + name
    return _shortened(name, _LONGEST_DOWNLOAD).rstrip(". ")


def short_name(name: str, most: int = 80) -> str:
    """A name of at most ``most`` characters: what is cut is the middle, never the ending."""
    if len(name) <= most:
        return name
    end = most // 3
    return f"{name[: most - end - 1]}…{name[-end:]}"


def _is_unsafe(character: str) -> bool:
    return character in _FORBIDDEN or unicodedata.category(character) in _HIDDEN


def _split_suffix(name: str) -> tuple[str, str]:
    double = _DOUBLE_SUFFIX.search(name)
    at = double.start() if double else name.rfind(".")
    if at <= 0 or len(name[at:].encode("utf-8", "replace")) > _LONGEST_SUFFIX:
        return name, ""
    return name[:at], name[at:]


def _shortened(name: str, most_bytes: int) -> str:
    if len(name.encode("utf-8", "replace")) <= most_bytes:
        return name
    stem, suffix = _split_suffix(name)
    room = most_bytes - len(suffix.encode("utf-8", "replace"))
    return stem.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + suffix
