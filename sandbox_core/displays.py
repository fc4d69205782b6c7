"""What a run showed, on the host's side: figures, images and rich values, bounded.

The sandbox sends them as files of a folder that the program could have written itself. Their
names say what they are, ``NUMBER-KIND.ENDING``; what has no such name is no display.
"""

import re
from collections.abc import Iterable
from typing import IO

from sandbox_core.archive import free_name
from sandbox_core.limits import Limits
from sandbox_core.models import Display, OutputFile

__all__ = ["DISPLAY_LIMITS", "name_displays"]

# Their number, the size of each, and of all together; the launcher keeps to the same.
DISPLAY_LIMITS = Limits(files=40, file_mib=8, work_mib=24)
_DISPLAY_NAME = re.compile(
    r"\d{3,4}-(figure|image|value)\.(png|jpg|jpeg|webp|svg|html)"
)
_MEDIA_BY_ENDING = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "html": "text/html",
}
_COMPARED_AT_ONCE = 1 << 18


def name_displays(
    received: Iterable[OutputFile], files: Iterable[OutputFile]
) -> tuple[Display, ...]:
    """The displays among what came from the sandbox, each once, with names for people.

    What is the same as one of the run's files, byte for byte, is left out: the file is shown.
    Called once for each run; contents are positioned at their start again.
    """
    files = tuple(files)
    seen = list(files)
    taken = {file.name for file in files}
    displays = []
    counts = dict.fromkeys(("figure", "image", "value"), 0)
    for entry in received:
        match = _DISPLAY_NAME.fullmatch(entry.name)
        if match is None or any(_is_same_picture(entry, other) for other in seen):
            entry.content.close()
            continue
        kind, ending = match.groups()
        counts[kind] += 1
        name = free_name(f"{kind}-{counts[kind]}.{ending}", taken)
        taken.add(name)
        seen.append(entry)
        displays.append(
            Display(_MEDIA_BY_ENDING[ending], name, entry.size, entry.content)
        )
    return tuple(displays)


def _is_same_picture(one: OutputFile, other: OutputFile) -> bool:
    if one.size != other.size:
        return False
    try:
        return _same_content(one.content, other.content)
    finally:
        one.content.seek(0)
        other.content.seek(0)


def _same_content(one: IO[bytes], other: IO[bytes]) -> bool:
    while chunk := one.read(_COMPARED_AT_ONCE):
        if chunk != other.read(_COMPARED_AT_ONCE):
            return False
    return True
