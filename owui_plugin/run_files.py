"""The files of one run, from the chat into the work folder and from there into the store."""

from collections.abc import Sequence
from typing import Any

from owui_plugin.chat_files import ChatFile, work_folder_note
from owui_plugin.displays import display_embeds
from owui_plugin.file_intake import FilesIn, files_for_run
from owui_plugin.file_rendering import (
    deleted_note,
    file_address,
    file_chips,
    render_files,
)
from owui_plugin.file_store import KeptFiles, Place, keep_files
from owui_plugin.quota import Quota
from owui_plugin.runtime import keep_task
from sandbox_core.limits import Limits
from sandbox_core.models import InputFile, RunResult

__all__ = ["RunFiles"]


class RunFiles:
    """What one run finds and leaves, and how people and model are told of it. Used once by
    the button and by the tool: bring_in, then keep, then the rest."""

    def __init__(
        self, place: Place, quota: Quota, data_targets: Sequence[str] = ()
    ) -> None:
        self._place = place
        self._quota = quota
        self._data_targets = data_targets
        self._found = FilesIn()
        self._kept = KeptFiles()
        self._embeds: list[str] = []

    async def bring_in(
        self, limits: Limits, attached: Sequence[ChatFile] = ()
    ) -> tuple[InputFile, ...]:
        """The files of the chat for a request with these limits. Raises nothing: what is
        missing is told in the notes."""
        place = self._place
        self._found = await files_for_run(
            place.user_id, place.chat_id, place.message_id, limits, attached
        )
        return self._found.files

    async def keep(self, result: RunResult, shown_bytes: int) -> RunResult:
        """Store what the run made and showed; returns the result with what was really stored.

        ``shown_bytes``: how much of the output is shown; when it is longer, it is stored too.
        """
        self._found.close()
        self._embeds = display_embeds(result)
        is_cut = result.output.omitted or _text_size(result) > shown_bytes
        # In a task of its own: half a file must not be left when the caller is cancelled.
        work = keep_files(self._place, result, self._quota, with_output=bool(is_cut))
        self._kept = await keep_task(work)
        return self._kept.applied_to(result)

    def notes(self, result: RunResult) -> list[str]:
        """Sentences for people and model: of files that are missing, renamed, not there, or
        deleted to make room."""
        deleted = deleted_note(self._kept.deleted)
        missed = work_folder_note(result, self._found.names, self._data_targets)
        return [*self._found.notes, *filter(None, (missed, deleted))]

    def markdown(self, result: RunResult) -> str:
        """The files as they are shown under the answer; empty when there are none."""
        return render_files(self._kept, result.skipped, result.outcome)

    @property
    def embeds(self) -> list[str]:
        """Interactive parts, as documents for an ``embeds`` event to the browser."""
        return self._embeds

    @property
    def chips(self) -> list[dict[str, Any]]:
        """The stored files, for an event to the browser."""
        return file_chips(self._kept)

    @property
    def addresses(self) -> dict[str, str]:
        """Where each file that was there or was made can be fetched, by its name."""
        ids = dict(self._found.ids)
        ids |= {file.name: file.file_id for file in self._kept.files}
        return {name: file_address(file_id) for name, file_id in ids.items()}


def _text_size(result: RunResult) -> int:
    return len(str(result.output).encode("utf-8", "replace"))
