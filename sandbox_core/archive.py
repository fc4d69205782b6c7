"""Files on the host's side: what goes into a sandbox, and what comes out, both bounded.

Names from a request are checked before anything starts; names and sizes from a sandbox are
untrusted, and file contents go to unlinked temporary files, never whole into memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from sandbox_core.errors import InvalidRequest, ProtocolError
from sandbox_core.languages import language_named
from sandbox_core.limits import MIB, Limits
from sandbox_core.models import InputFile, OutputFile, RunRequest, SkippedFile
from sandbox_core.spool import spooled_file

__all__ = [
    "FileReceiver",
    "InputPlan",
    "free_name",
    "is_input_name",
    "plan_files",
    "safe_output_name",
]

_LONGEST_PART = 255
_NO_ROOM = "there was no room for it on the server"
_DEEPEST = 20
_PAGE = 4096
_LARGEST_STDIN_MIB = 16
_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class InputPlan:
    """All files of a request, its programs last, and the name of each step's program."""

    files: tuple[InputFile, ...]
    step_names: tuple[str, ...]


def plan_files(request: RunRequest) -> InputPlan:
    """Check the names and sizes of a request's files, and name its programs.

    Raises InvalidRequest for an unsafe or repeated name, an unknown language, more than the
    work folder holds, or more than 16 MiB of stdin.
    """
    taken: set[str] = set()
    for file in request.files:
        _check_input_name(file.name)
        if file.name in taken:
            raise InvalidRequest(f"There are two files with the name “{file.name}”.")
        taken.add(file.name)
    _check_folders(taken)
    programs = []
    for step in request.steps:
        name = free_name(language_named(step.language).file_for(step.code), taken)
        taken.add(name)
        programs.append(InputFile(name, step.code.encode("utf-8", "surrogatepass")))
    files = (*request.files, *programs)
    _check_sizes(files, request)
    return InputPlan(files, tuple(program.name for program in programs))


def _check_sizes(files: tuple[InputFile, ...], request: RunRequest) -> None:
    # The folder gives out whole pages.
    needed = sum(-(-file.size // _PAGE) * _PAGE for file in files)
    if needed > request.limits.work_mib * MIB:
        raise InvalidRequest(
            f"The files for this run need {needed / MIB:.1f} MB, but the work folder holds "
            f"{request.limits.work_mib} MB. Leave some out."
        )
    if len(request.stdin) > _LARGEST_STDIN_MIB * MIB:
        raise InvalidRequest(
            f"The input of a program (stdin) may have {_LARGEST_STDIN_MIB} MB at most. Give "
            "it a file instead."
        )


def is_input_name(name: str) -> bool:
    """Whether a file can have this name in the work folder: relative, no tricks, not deep."""
    parts = name.split("/")
    return not (
        not name
        or "\0" in name
        or len(parts) > _DEEPEST
        or any(part in ("", ".", "..") for part in parts)
        or any(
            len(part.encode("utf-8", "surrogatepass")) > _LONGEST_PART for part in parts
        )
        or any(0xD800 <= ord(character) <= 0xDFFF for character in name)
    )


def _check_input_name(name: str) -> None:
    if not is_input_name(name):
        raise InvalidRequest(
            f"“{name[:80]}” cannot be the name of a file in the work folder."
        )


def _check_folders(names: set[str]) -> None:
    for name in names:
        for parent in PurePosixPath(name).parents:
            if str(parent) in names:
                raise InvalidRequest(f"“{parent}” cannot be both a file and a folder.")


def free_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of name_2, name_3, … that no file or folder has."""
    first_parts = {name.partition("/")[0] for name in taken}
    stem, dot, suffix = wanted.partition(".")
    candidate, number = wanted, 1
    while candidate in taken or candidate in first_parts:
        number += 1
        candidate = f"{stem}_{number}{dot}{suffix}"
    return candidate


def safe_output_name(untrusted_name: str) -> str:
    """A relative name whose parts are no path tricks; it may still need escaping to show."""
    name = untrusted_name[:_LONGEST_NAME].encode("utf-8", "replace").decode()
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return "/".join(parts).replace("\0", "�") or "unnamed"


class FileReceiver:
    """Takes the files that a guest sends and keeps each in an unlinked temporary file.

    The guest was told the bounds; whoever passes them is not our guest: ProtocolError. A file
    for which this host has no room is lost, and the run goes on.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files: list[OutputFile] = []
        self._current: OutputFile | None = None
        self._current_is_lost = False
        self._total = 0
        self._lost: list[SkippedFile] = []
        self._names: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether a file has begun and not ended."""
        return self._current is not None

    def begin(self, untrusted_name: str) -> None:
        """A file starts. Raises ProtocolError when there are too many, or one is open."""
        count = len(self._files) + len(self._lost)
        if self._current is not None or count >= self._limits.files:
            raise ProtocolError(
                "The sandbox sent a broken message.", "file out of turn"
            )
        name = safe_output_name(untrusted_name)
        if name in self._names:  # two that were not valid UTF-8 have become the same
            name = free_name(name, self._names)
        self._names.add(name)
        self._current = OutputFile(name, 0, spooled_file())
        self._current_is_lost = False

    def data(self, untrusted_data: bytes) -> None:
        """Bytes of the open file. Raises ProtocolError above the size limits."""
        file = self._current
        if file is None:
            raise ProtocolError(
                "The sandbox sent a broken message.", "data without a file"
            )
        size = file.size + len(untrusted_data)
        self._total += len(untrusted_data)
        if (
            size > self._limits.file_mib * MIB
            or self._total > self._limits.work_mib * MIB
        ):
            raise ProtocolError("The sandbox sent a broken message.", "file too large")
        self._current = replace(file, size=size)
        if not self._current_is_lost:
            self._try_to_keep(file.content.write, untrusted_data)

    def end(self) -> None:
        """The open file is complete. Raises ProtocolError when none is open."""
        if self._current is None:
            raise ProtocolError(
                "The sandbox sent a broken message.", "end without a file"
            )
        file, self._current = self._current, None
        if not self._current_is_lost:
            self._try_to_keep(file.content.seek, 0)
        if self._current_is_lost:
            self._lost.append(SkippedFile(file.name, _NO_ROOM))
        else:
            self._files.append(file)

    def _try_to_keep(self, action: Callable[[Any], object], argument: object) -> None:
        try:
            action(argument)
        except OSError:
            self._current_is_lost = True

    def lost_files(self) -> tuple[SkippedFile, ...]:
        """Whole files that could not be kept."""
        return tuple(self._lost)

    def complete_files(self) -> tuple[OutputFile, ...]:
        """All whole files, sorted by name; an unfinished one is dropped."""
        if self._current is not None:
            self._current.content.close()
            self._current = None
        return tuple(sorted(self._files, key=lambda file: file.name))
