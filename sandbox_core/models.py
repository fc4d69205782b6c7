"""What goes into a run and what comes out of it. Values only: no engine, no I/O.

``to_plain`` / ``from_plain`` give and take dicts of JSON-like values (plus bytes and open
files), because two copies of this module may meet in one process: each pasted plugin holds
its own, and only plain values may cross between them.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import IO, Any, Self

from sandbox_core.errors import InvalidRequest
from sandbox_core.limits import Limits
from sandbox_core.outcome import Outcome

__all__ = [
    "Display",
    "InputFile",
    "KeptText",
    "OnEvent",
    "OutputFile",
    "RunEvent",
    "RunRequest",
    "RunResult",
    "SkippedFile",
    "Step",
    "new_run_id",
]

_PIECE_BYTES = 1 << 20


def new_run_id() -> str:
    """A fresh id of 16 hex digits for one run."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Step:
    """One program of a run: a language name or alias, and its source text."""

    language: str
    code: str


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file placed in the work folder: a relative name and its whole content, which is
    ``data``, or that of an open file (seekable, at most one run reads it)."""

    name: str
    data: bytes = b""
    content: IO[bytes] | None = None

    @property
    def size(self) -> int:
        """Length of the content in bytes. Raises InvalidRequest for an unreadable file."""
        if self.content is None:
            return len(self.data)
        with _reading(self.name):
            return self.content.seek(0, 2)

    def chunks(self, most: int) -> Iterator[bytes | memoryview]:
        """The content in pieces of at most ``most`` bytes; never whole in memory when it is a
        file. Raises InvalidRequest when that cannot be read."""
        if self.content is None:
            view = memoryview(self.data)
            yield from (
                view[start : start + most] for start in range(0, len(view), most)
            )
            return
        with _reading(self.name):
            self.content.seek(0)
            while chunk := self.content.read(most):
                yield chunk

    def whole(self) -> bytes:
        """All of the content at once. Raises InvalidRequest when it cannot be read."""
        return b"".join(self.chunks(_PIECE_BYTES))


@dataclass(frozen=True, slots=True)
class RunRequest:
    """1..n steps for one fresh sandbox, in order. Raises InvalidRequest when there is none.

    ``packages`` are names of Python packages to install before the first step. ``network`` is
    one of egress.NETWORK_MODES: what the run may reach at most; empty: all that is allowed.
    ``user`` and ``chat`` are ids of whoever asked, for queues and records: they never enter
    the sandbox, and its labels do not name them.
    """

    steps: tuple[Step, ...]
    files: tuple[InputFile, ...] = ()
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    run_id: str = field(default_factory=new_run_id)
    user: str = ""
    chat: str = ""
    packages: tuple[str, ...] = ()
    network: str = ""

    def __post_init__(self) -> None:
        if not self.steps:
            raise InvalidRequest("There is no code to run.")

    def to_plain(self) -> dict[str, Any]:
        """This request as plain values (and open files); the inverse of from_plain."""
        return {
            "steps": [asdict(step) for step in self.steps],
            "files": [_shallow_plain(file) for file in self.files],
            "stdin": self.stdin,
            "limits": asdict(self.limits),
            "run_id": self.run_id,
            "user": self.user,
            "chat": self.chat,
            "packages": self.packages,
            "network": self.network,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """A request from what to_plain gave. Raises InvalidRequest as the constructors do."""
        return cls(
            steps=tuple(Step(**step) for step in plain["steps"]),
            files=tuple(InputFile(**file) for file in plain["files"]),
            stdin=plain["stdin"],
            limits=Limits(**plain["limits"]),
            run_id=plain["run_id"],
            user=plain["user"],
            chat=plain["chat"],
            packages=tuple(plain["packages"]),
            network=plain["network"],
        )


@dataclass(frozen=True, slots=True)
class KeptText:
    """Cleaned text of which, when it was long, only the head and the tail were kept.

    ``omitted`` counts the UTF-8 bytes left out between ``head`` and ``tail``.
    """

    head: str = ""
    tail: str = ""
    omitted: int = 0

    def __str__(self) -> str:
        if not self.omitted:
            return self.head + self.tail
        return f"{self.head}\n[… {self.omitted} bytes left out …]\n{self.tail}"


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened while a run was under way.

    ``kind`` is ``started`` (a step's program runs) or ``text`` (cleaned output of ``stream``,
    ``stdout`` or ``stderr``; a carriage return in it means: the current line starts anew).
    """

    kind: str
    step: int = 0
    stream: str = ""
    text: str = ""


OnEvent = Callable[[RunEvent], None]


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A regular file that the run made or changed. ``content`` is an unlinked temporary file,
    positioned at its start; it is gone when closed. ``size`` is in bytes."""

    name: str
    size: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class Display:
    """A figure, an image or a rich value that the run showed; not a file of its work folder.

    ``mime_type`` is one of ours, ``name`` is made by us and no file of the run has it.
    ``content`` and ``size`` are as in OutputFile, and as untrusted.
    """

    mime_type: str
    name: str
    size: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """Something in the work folder that was not brought back, and the reason in words."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """All that is known of one run. ``message`` is one plain sentence, empty when all is well.

    ``output`` holds stdout and stderr in the order in which the guest saw them, and
    ``full_output`` the same as a file, up to the limits of output and of one file.
    ``displays`` come in the order in which they were shown.
    ``seconds`` is the time of the programs, ``total_seconds`` that of the whole call.
    ``failed_step`` is the index of the step that ended the run early.
    ``evidence`` names what really ran it (kernel text, engine, image), for logs and doctors.
    """

    run_id: str
    outcome: Outcome
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    stdout: KeptText = KeptText()
    stderr: KeptText = KeptText()
    output: KeptText = KeptText()
    value: str | None = None
    files: tuple[OutputFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    displays: tuple[Display, ...] = ()
    full_output: OutputFile | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    total_seconds: float = 0.0
    failed_step: int | None = None
    evidence: dict[str, str] = field(default_factory=dict)

    @property
    def shell_exit_code(self) -> int | None:
        """Exit status as a shell tells it: 128 + signal for a killed program."""
        return self.exit_code if self.signal is None else 128 + self.signal

    @property
    def contents(self) -> tuple[Display | OutputFile, ...]:
        """All that has to be read or closed: what was shown, then the files."""
        return (*self.displays, *self.files)

    def to_plain(self) -> dict[str, Any]:
        """This result as plain values (and open files); the inverse of from_plain."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["outcome"] = str(self.outcome)
        for name in ("stdout", "stderr", "output"):
            plain[name] = asdict(plain[name])
        plain["files"] = [_shallow_plain(file) for file in self.files]
        plain["displays"] = [_shallow_plain(entry) for entry in self.displays]
        if self.full_output is not None:
            plain["full_output"] = _shallow_plain(self.full_output)
        plain["skipped"] = [asdict(entry) for entry in self.skipped]
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """A result from what to_plain gave."""
        values = dict(plain)
        values["outcome"] = Outcome(plain["outcome"])
        for name in ("stdout", "stderr", "output"):
            values[name] = KeptText(**plain[name])
        values["files"] = tuple(OutputFile(**file) for file in plain["files"])
        values["displays"] = tuple(Display(**entry) for entry in plain["displays"])
        if plain["full_output"] is not None:
            values["full_output"] = OutputFile(**plain["full_output"])
        values["skipped"] = tuple(SkippedFile(**entry) for entry in plain["skipped"])
        return cls(**values)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # a closed file is a ValueError
        raise InvalidRequest(
            f"The file “{name[:80]}” could not be read. Run it again without the file.",
            detail=repr(error),
        ) from error


def _shallow_plain(value: InputFile | OutputFile | Display) -> dict[str, Any]:
    """The fields by name; an open file cannot be copied, as asdict would."""
    return {name: getattr(value, name) for name in value.__slots__}
