"""Files on the host's side: what goes into a sandbox, and what comes out, both bounded.

Names from a request are checked before anything starts; names and sizes from a sandbox are
untrusted, and file contents go to unlinked temporary files, never whole into memory.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import IO

from sandbox_core.errors import InvalidRequest, ProtocolError
from sandbox_core.languages import language_named
from sandbox_core.limits import MIB, Limits
from sandbox_core.models import InputFile, OutputFile, RunRequest

__all__ = ["FileReceiver", "InputPlan", "plan_files", "safe_output_name"]

_LONGEST_PART = 255
_DEEPEST = 20
_IN_MEMORY = 1 << 16


@dataclass(frozen=True, slots=True)
class InputPlan:
    """All files of a request, its programs last, and the name of each step's program."""

    files: tuple[InputFile, ...]
    step_names: tuple[str, ...]


def plan_files(request: RunRequest) -> InputPlan:
    """Check the names and sizes of a request's files, and name its programs.

    Raises InvalidRequest for an unsafe or repeated name, an unknown language, or more bytes
    than the work folder holds.
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
        name = _free_name(language_named(step.language).file_for(step.code), taken)
        taken.add(name)
        programs.append(InputFile(name, step.code.encode("utf-8", "surrogatepass")))
    files = (*request.files, *programs)
    total = sum(len(file.data) for file in files)
    if total > request.limits.work_mib * MIB:
        raise InvalidRequest(
            f"The files for this run have {total / MIB:.1f} MB, but the work folder holds "
            f"{request.limits.work_mib} MB. Leave some out."
        )
    return InputPlan(files, tuple(program.name for program in programs))


def _check_input_name(name: str) -> None:
    parts = name.split("/")
    bad = (
        not name
        or "\0" in name
        or len(parts) > _DEEPEST
        or any(part in ("", ".", "..") for part in parts)
        or any(
            len(part.encode("utf-8", "surrogatepass")) > _LONGEST_PART for part in parts
        )
        or any(0xD800 <= ord(character) <= 0xDFFF for character in name)
    )
    if bad:
        raise InvalidRequest(
            f"“{name[:80]}” cannot be the name of a file in the work folder."
        )


def _check_folders(names: set[str]) -> None:
    for name in names:
        for parent in PurePosixPath(name).parents:
            if str(parent) in names:
                raise InvalidRequest(f"“{parent}” cannot be both a file and a folder.")


def _free_name(wanted: str, taken: set[str]) -> str:
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
    parts = [part for part in untrusted_name.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[:4096].replace("\0", "�") or "unnamed"


class FileReceiver:
    """Takes f, d and q frames and keeps each file in an unlinked temporary file.

    The guest was told the bounds; whoever passes them is not our guest: ProtocolError.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files: list[OutputFile] = []
        self._current: OutputFile | None = None
        self._total = 0
        self._names: set[str] = set()

    def begin(self, untrusted_name: str) -> None:
        """A file starts. Raises ProtocolError when there are too many, or one is open."""
        if self._current is not None or len(self._files) >= self._limits.files:
            raise ProtocolError(
                "The sandbox sent a broken message.", "file out of turn"
            )
        # Two names that are not valid UTF-8 may have become the same one.
        name = _free_name(safe_output_name(untrusted_name), self._names)
        self._names.add(name)
        content: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)
        self._current = OutputFile(name, 0, content)

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
        file.content.write(untrusted_data)
        self._current = replace(file, size=size)

    def end(self) -> None:
        """The open file is complete. Raises ProtocolError when none is open."""
        if self._current is None:
            raise ProtocolError(
                "The sandbox sent a broken message.", "end without a file"
            )
        self._current.content.seek(0)
        self._files.append(self._current)
        self._current = None

    def complete_files(self) -> tuple[OutputFile, ...]:
        """All whole files, sorted by name; an unfinished one is dropped."""
        if self._current is not None:
            self._current.content.close()
            self._current = None
        return tuple(sorted(self._files, key=lambda file: file.name))
