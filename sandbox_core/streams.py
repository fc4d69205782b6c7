"""Program output as text: cleaned, redraws collapsed, head and tail kept.

Pure and incremental: the runner feeds bytes as they arrive, and what comes out does not
depend on how they were cut into chunks. Cleaned text holds no control characters but
newline and tab, and a lone carriage return, which means: the current line starts anew.
"""

import codecs
import re

from sandbox_core.models import KeptText

__all__ = ["HeadTail", "TextCleaner", "Transcript", "clean_text", "shorten"]

# A control string (OSC, DCS, …) is dropped only when its end is found within this many
# characters and on the same line: a stray introducer must not swallow what follows it.
_LONGEST_STRING = 4096
_LONGEST_OPEN_LINE = 64 * 1024

_CSI = r"\[[0-?]{0,64}+[ -/]{0,16}+"
_STRING = rf"[PX\]^_][^\x00-\x1f\x7f]{{0,{_LONGEST_STRING}}}+"
_OTHER = r"[ -/]{0,16}+"
_SEQUENCE = re.compile(rf"\x1b(?:{_CSI}[@-~]?|{_STRING}(?:\x07|\x1b\\)|{_OTHER}[0-~]?)")
_UNFINISHED = re.compile(rf"\x1b(?:{_CSI}|{_STRING}\x1b?|{_OTHER})\Z")
_LONGEST_UNFINISHED = _LONGEST_STRING + 8
_EIGHT_BIT = re.compile(r"[\x80-\x9f]")
_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_RETURNS = re.compile(r"\r{2,}")
_REDRAWN = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)


class TextCleaner:
    """Turns the bytes of one stream into cleaned text, chunk by chunk.

    UTF-8 with replacement; escape sequences and control characters go, whole or split over
    chunks. A backspace is dropped and erases nothing: what it would erase may be shown
    already. ``\\r\\n`` becomes ``\\n``; a run of lone ``\\r`` becomes one.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unfinished = ""
        self._returned = False

    def feed(self, data: bytes) -> str:
        """The text that is certain after these bytes; what may still change is held."""
        text = self._decoder.decode(data)
        if not (self._unfinished or self._returned or _SPECIAL.search(text)):
            return text
        text = self._unfinished + _EIGHT_BIT.sub(_as_seven_bit, text)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_UNFINISHED))
        self._unfinished = unfinished[0] if unfinished else ""
        return self._clean(text.removesuffix(self._unfinished))

    def finish(self) -> str:
        """The text that was held. The cleaner is then as new."""
        text = self._clean(self._unfinished + self._decoder.decode(b"", final=True))
        if self._returned:
            text += "\r"
        self._decoder.reset()
        self._unfinished, self._returned = "", False
        return text

    def _clean(self, text: str) -> str:
        text = _CONTROLS.sub("", _SEQUENCE.sub("", text))
        if self._returned:
            text = "\r" + text
        text = _RETURNS.sub("\r", text).replace("\r\n", "\n")
        self._returned = text.endswith("\r")
        return text.removesuffix("\r")


def _as_seven_bit(control: re.Match[str]) -> str:
    return "\x1b" + chr(ord(control[0]) - 0x40)


def clean_text(text: str) -> str:
    """One whole text, cleaned as a stream is; a lone surrogate becomes ``?``."""
    cleaner = TextCleaner()
    return cleaner.feed(text.encode("utf-8", "replace")) + cleaner.finish()


class HeadTail:
    """Keeps the first and the last ``cap_bytes`` of a text (as UTF-8), counts the rest."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap = cap_bytes
        self._head = bytearray()
        self._head_is_full = False
        self._tail = bytearray()
        self._dropped = 0

    def add(self, text: str) -> None:
        """Appends text; memory stays bounded by a few times the cap and this text."""
        data = text.encode("utf-8", "replace")
        if not self._head_is_full:
            end = _border_before(data, self._cap - len(self._head))
            self._head += data[:end]
            self._head_is_full = end < len(data)
            data = data[end:]
        self._tail += data
        if len(self._tail) > 2 * self._cap:
            self._trim_tail()

    def kept(self) -> KeptText:
        """What was kept, cut at character borders."""
        self._trim_tail()
        start = _border_after(self._tail, 0)
        return KeptText(
            head=self._head.decode("utf-8"),
            tail=self._tail[start:].decode("utf-8"),
            omitted=self._dropped + start,
        )

    def _trim_tail(self) -> None:
        excess = max(0, len(self._tail) - self._cap)
        del self._tail[:excess]
        self._dropped += excess


class Transcript:
    """Cleaned output of both streams in arrival order, with redrawn lines collapsed.

    Keeps ``cap_bytes`` of head and of tail for stdout, for stderr, and for both together. A
    carriage return drops the open line of its stream, as soon as something is written over
    it. When the other stream writes, the open line gets its line end in the combined output
    at once: unbuffered programs write a text and its line end apart, and the other stream
    may come in between. An open line of more than 64 Ki characters is final.
    """

    def __init__(self, cap_bytes: int) -> None:
        self._open = {"stdout": _OpenLine(), "stderr": _OpenLine()}
        self._kept = {"stdout": HeadTail(cap_bytes), "stderr": HeadTail(cap_bytes)}
        self._open_output = _OpenLine()
        self._output = HeadTail(cap_bytes)
        self._writer = ""
        self._ended_for = (
            ""  # the stream whose line end is in the combined output already
        )

    def add(self, stream: str, text: str) -> None:
        """Appends cleaned text of ``stdout`` or ``stderr``; KeyError for another name."""
        if not text:
            return
        self._kept[stream].add(self._open[stream].add(text))
        if stream != self._writer:
            self._end_open_line()
            self._writer = stream
        if stream == self._ended_for:
            text = text.removeprefix("\n")
            self._ended_for = ""
        self._output.add(self._open_output.add(text))

    def _end_open_line(self) -> None:
        line = self._open_output.take()
        if line:
            self._output.add(line + "\n")
            self._ended_for = self._writer

    def finish(self) -> tuple[KeptText, KeptText, KeptText]:
        """stdout, stderr, and both together; lines that were still open are shown."""
        for stream, line in self._open.items():
            self._kept[stream].add(line.take())
        self._output.add(self._open_output.take())
        return (
            self._kept["stdout"].kept(),
            self._kept["stderr"].kept(),
            self._output.kept(),
        )


class _OpenLine:
    """The unfinished last line of a text, which a carriage return may still drop."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._returned = False

    def add(self, text: str) -> str:
        """Takes text in; gives what is now final."""
        if self._returned:
            text = "\r" + text
        returned = text.endswith("\r")
        if "\r" in text:
            text = _REDRAWN.sub("", self.take() + text).replace("\r", "")
        end = text.rfind("\n") + 1
        final = self.take() + text[:end] if end else ""
        self._parts.append(text[end:])
        self._size += len(text) - end
        if self._size > _LONGEST_OPEN_LINE:
            final += self.take()
        self._returned = returned
        return final

    def take(self) -> str:
        """The open line, which is then empty."""
        line = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._returned = False
        return line


def shorten(text: KeptText, budget_bytes: int) -> KeptText:
    """The same text cut to ``budget_bytes`` of head and tail together, at line ends where
    one is near. What is left out is added to ``omitted``; unchanged when it fits."""
    head, tail = text.head.encode("utf-8", "replace"), text.tail.encode(
        "utf-8", "replace"
    )
    size, budget = len(head) + len(tail), max(0, budget_bytes)
    if size <= budget:
        return text
    if not text.omitted:
        head = tail = head + tail
    head = head[: _line_end_before(head, max(budget // 2, budget - len(tail)))]
    tail = tail[_line_start_after(tail, len(tail) + len(head) - budget) :]
    return KeptText(
        head=head.decode("utf-8"),
        tail=tail.decode("utf-8"),
        omitted=text.omitted + size - len(head) - len(tail),
    )


def _border_before(data: bytes | bytearray, index: int) -> int:
    if index >= len(data):
        return len(data)
    while index > 0 and data[index] & 0xC0 == 0x80:
        index -= 1
    return index


def _border_after(data: bytes | bytearray, index: int) -> int:
    while index < len(data) and data[index] & 0xC0 == 0x80:
        index += 1
    return index


def _line_end_before(data: bytes, index: int) -> int:
    end = _border_before(data, index)
    newline = data.rfind(b"\n", end - end // 4, end)
    return newline + 1 if newline >= 0 and end < len(data) else end


def _line_start_after(data: bytes, index: int) -> int:
    if index <= 0:
        return 0
    start = _border_after(data, index)
    near = (len(data) - start) // 4
    newline = data.find(b"\n", start - 1, start + near)
    return newline + 1 if newline >= 0 else start
