"""The whole output of a run, on disk: what the head and the tail in memory leave out."""

import tempfile
from typing import IO

from sandbox_core.models import OutputFile

__all__ = ["OutputSpool", "spooled_file"]

_IN_MEMORY = 1 << 16
_SPOOLED_NAME = "full-output.txt"


def spooled_file() -> IO[bytes]:
    """An unlinked temporary file that stays in memory while it has at most 64 KiB."""
    return tempfile.SpooledTemporaryFile(_IN_MEMORY)


class OutputSpool:
    """Takes cleaned text as it comes and keeps it in an unlinked temporary file.

    At most ``cap_bytes`` of UTF-8; the rest is dropped, and the file says so at its end. A
    host without room for it loses the file and nothing else.
    """

    def __init__(self, cap_bytes: int) -> None:
        self._left = cap_bytes
        self._size = 0
        self._cut = False
        self._content: IO[bytes] | None = spooled_file()

    def add(self, text: str) -> None:
        """Append a text, as far as there is room. Called for each piece of output."""
        data = text.encode("utf-8", "replace")
        if len(data) > self._left:
            data = data[: self._left].decode("utf-8", "ignore").encode()
            self._left = len(data)
            self._cut = True
        self._left -= len(data)
        self._write(data)

    def finish(self) -> OutputFile | None:
        """The file, positioned at its start; None when it is empty or could not be kept."""
        if self._cut:
            self._write("\n[… the rest was not kept …]\n".encode())
        content = self._content
        if content is None or not self._size:
            return None
        try:
            content.seek(0)
        except OSError:
            return None
        return OutputFile(_SPOOLED_NAME, self._size, content)

    def _write(self, data: bytes) -> None:
        if self._content is None:
            return
        try:
            self._content.write(data)
            self._size += len(data)
        except OSError:
            self._content.close()
            self._content = None
