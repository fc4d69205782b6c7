"""A result as the one JSON object of an answer, small enough for a model to read."""

import base64

from pydantic import BaseModel, Field

from sandbox_core.hints import hint_for
from sandbox_core.limits import MIB
from sandbox_core.models import Display, OutputFile, RunResult
from sandbox_core.streams import shorten

__all__ = ["FileOut", "Message", "RunAnswer", "SkippedOut", "answer_of"]


class Message(BaseModel):
    """Why a call was refused."""

    message: str = Field(description="One sentence.")


class FileOut(BaseModel):
    """A file that the run made."""

    name: str
    size: int = Field(description="In bytes.")
    data: str | None = Field(None, description="The content, base64, if asked for.")


class SkippedOut(BaseModel):
    """A file that was not brought back."""

    name: str
    reason: str


class RunAnswer(BaseModel):
    """How a run ended and what came of it."""

    run_id: str
    outcome: str = Field(description="ok, failed, timeout, memory_limit, and others.")
    message: str = Field(
        "", description="What happened, in a sentence; empty if all is well."
    )
    next: str = Field("", description="What to do about it.")
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    omitted_bytes: int = Field(0, description="Output left out of stdout and stderr.")
    value: str | None = Field(None, description="The value of a last bare expression.")
    files: list[FileOut] = []
    skipped: list[SkippedOut] = []
    notes: list[str] = []
    failed_step: int | None = None
    seconds: float = Field(0, description="Time of the programs.")
    total_seconds: float = Field(0, description="Time of the whole run.")


def answer_of(
    result: RunResult, output_kb: int, return_files: bool, most_file_mb: int
) -> RunAnswer:
    """The answer. Reads and closes the result's files; those that do not fit are named."""
    stdout = shorten(result.stdout, output_kb * 1024)
    stderr = shorten(result.stderr, output_kb * 1024)
    room = most_file_mb * MIB if return_files else 0
    files, skipped = [], [
        SkippedOut(name=e.name, reason=e.reason) for e in result.skipped
    ]
    # Whoever reads JSON alone has no other place for what was shown.
    for file in result.contents:
        data = _content(file, room)
        if data is not None:
            room -= file.size
        elif return_files:
            reason = f"the contents in one answer are limited to {most_file_mb} MiB"
            skipped.append(SkippedOut(name=file.name, reason=reason))
        files.append(FileOut(name=file.name, size=file.size, data=data))
    return RunAnswer(
        run_id=result.run_id,
        outcome=str(result.outcome),
        message=result.message,
        next=hint_for(result),
        exit_code=result.shell_exit_code,
        stdout=str(stdout),
        stderr=str(stderr),
        omitted_bytes=stdout.omitted + stderr.omitted,
        value=result.value,
        files=files,
        skipped=skipped,
        notes=list(result.notes),
        failed_step=result.failed_step,
        seconds=round(result.seconds, 3),
        total_seconds=round(result.total_seconds, 3),
    )


def _content(file: OutputFile | Display, room: int) -> str | None:
    with file.content as content:
        if not room or file.size > room:
            return None
        return base64.b64encode(content.read()).decode("ascii")
