"""The run_code tool: what a model calls to have its code run, and what it is told."""

import asyncio
import os
import sys
from typing import Any

from owui_plugin.after_turn import STOPPED_TURN_SECONDS, show_after_turn
from owui_plugin.chat_files import ChatFile, files_of_question
from owui_plugin.command_line import run_plugin_file
from owui_plugin.file_store import Place
from owui_plugin.host import Emitter, emit, is_saved_chat
from owui_plugin.image_inventory import inventory_of, known_inventory
from owui_plugin.interrupted import mark_interrupted_runs_soon
from owui_plugin.output_items import text_item
from owui_plugin.progress import Progress, ended_status
from owui_plugin.render import render_for_chat
from owui_plugin.repeat_guard import REPEAT_SENTENCE, RepeatGuard, call_digest
from owui_plugin.run_files import RunFiles
from owui_plugin.runtime import RunTicket, keep_task, start_run
from owui_plugin.settings import Settings, SharedSettings, resolve_settings
from owui_plugin.valves import PersonalValves, ToolValves
from sandbox_core.call_input import read_call
from sandbox_core.egress import describe_network
from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import InvalidRequest, SandboxError
from sandbox_core.images import (
    DATA_IMAGE,
    FULL_IMAGE,
    PYTHON_IMAGE,
    SLIM_IMAGE,
    image_name,
    may_have_language,
)
from sandbox_core.installer import PACKAGES_OFF
from sandbox_core.inventory import Inventory
from sandbox_core.languages import known_languages
from sandbox_core.listing import list_languages_text, list_packages_text
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.render_model import render_for_model, render_refusal_for_model

__all__ = ["Tools"]

_USUAL_PACKAGES = (
    "numpy, pandas, matplotlib, seaborn, plotly, scipy, statsmodels, scikit-learn,\n"
    "sympy, networkx, pillow, openpyxl, python-docx, python-pptx, pypdf, pdfplumber, reportlab,\n"
    "qrcode, lxml, beautifulsoup4 and tabulate"
)
_MORE_PACKAGES = "; and polars, duckdb, pyarrow, pymupdf, weasyprint and opencv (cv2)"
_PACKAGES_OF_IMAGES = {
    SLIM_IMAGE: "Python has no packages.\n",
    PYTHON_IMAGE: f"Python has {_USUAL_PACKAGES}.\n",
    DATA_IMAGE: f"Python has {_USUAL_PACKAGES}{_MORE_PACKAGES}.\n",
    FULL_IMAGE: f"Python has {_USUAL_PACKAGES}.\n",
}

_INSTALLS_OFF = "Packages cannot be installed.\n"
_INSTALLS_ON = (
    "Python packages that are not there are installed first, if packages names them (wheels of\n"
    "the index only).\n"
)


class Tools:
    """What Open WebUI loads: the tool run_code, and two that list what it can use."""

    Valves = ToolValves
    UserValves = PersonalValves

    def __init__(self) -> None:
        self._guard = RepeatGuard()
        self.valves = self.Valves()
        mark_interrupted_runs_soon()

    @property
    def valves(self) -> ToolValves:
        """The valves in force; Open WebUI sets them before each use of the tool."""
        return self._valves

    @valves.setter
    def valves(self, valves: ToolValves) -> None:
        """Open WebUI shows the model the docstring of run_code: it is made true of these."""
        self._valves = valves
        Tools.run_code.__doc__ = _describe_tool(valves)

    async def run_code(
        self,
        code: str,
        language: str = "python",
        stdin: str = "",
        packages: list[str] | None = None,
        __user__: dict[str, Any] | None = None,
        __chat_id__: str | None = None,
        __message_id__: str | None = None,
        __metadata__: dict[str, Any] | None = None,
        __event_emitter__: Any = None,
    ) -> str:
        """Run a program in a sandbox; the model is told more, see ``valves``."""
        valves = self.valves
        user = __user__ or {}
        place = Place(str(user.get("id")), str(__chat_id__), str(__message_id__))
        try:
            settings = resolve_settings(valves, user.get("valves"), os.environ)
            program, known = read_call(code, language)
            if packages and not settings.may_install:
                raise InvalidRequest(PACKAGES_OFF)
        except SandboxError as error:
            return await _refuse(__event_emitter__, str(error))
        digest = call_digest(known.name, program, str(stdin), *_names(packages))
        if self._guard.refuses(place.user_id, place.chat_id, digest):
            return await _refuse(__event_emitter__, REPEAT_SENTENCE)
        files = RunFiles(place, settings.quota, settings.shared.data_targets)
        request = RunRequest(
            steps=(Step(known.name, program),),
            files=await files.bring_in(
                settings.limits, _files_of_temporary_chat(place, __metadata__)
            ),
            stdin=str(stdin or "").encode("utf-8", "replace"),
            limits=settings.limits,
            user=place.user_id,
            chat=place.chat_id,
            packages=_names(packages),
            network=settings.network,
        )
        call = _Call(request, known.title, place, files, __event_emitter__)
        result = await call.run(settings)
        self._guard.ended(place.user_id, place.chat_id, digest, result.outcome)
        return render_for_model(
            result, settings.model_output_kb * 1024, files.notes(result)
        )

    async def list_packages(
        self,
        filter: str = "",
        __user__: dict[str, Any] | None = None,
        __chat_id__: str | None = None,
    ) -> str:
        """List the Python packages that programs of run_code can import, with their versions.

        :param filter: Words; only packages whose names contain one of them. Empty: all.
        """
        try:
            found = await self._inventory(__user__, __chat_id__)
            return list_packages_text(found, str(filter or ""))
        except SandboxError as error:
            return render_refusal_for_model(str(error))

    async def list_languages(
        self,
        filter: str = "",
        __user__: dict[str, Any] | None = None,
        __chat_id__: str | None = None,
    ) -> str:
        """List the programming languages that run_code can run, with their versions.

        :param filter: Words; only languages whose names contain one of them. Empty: all.
        """
        try:
            found = await self._inventory(__user__, __chat_id__)
            return list_languages_text(found.languages, str(filter or ""))
        except SandboxError as error:
            return render_refusal_for_model(str(error))

    async def _inventory(
        self, user: dict[str, Any] | None, chat_id: str | None
    ) -> Inventory:
        settings = resolve_settings(self.valves, None, os.environ)
        user_id = str((user or {}).get("id"))
        return await inventory_of(settings.shared, user_id, str(chat_id))


def _files_of_temporary_chat(
    place: Place, metadata: dict[str, Any] | None
) -> list[ChatFile]:
    """What is attached to the question, where no stored message tells it."""
    question = (metadata or {}).get("user_message")
    if is_saved_chat(place.chat_id) or not isinstance(question, dict):
        return []
    return files_of_question(question)


def _names(packages: object) -> tuple[str, ...]:
    """What a model gave for a list of names: that, or names with blanks or commas between."""
    if isinstance(packages, str):
        return tuple(packages.replace(",", " ").split())
    listed = packages if isinstance(packages, (list, tuple)) else ()
    return tuple(str(name) for name in listed)


async def _refuse(emitter: Emitter | None, sentence: str) -> str:
    """Tell person and model why nothing is run."""
    await emit(emitter, "status", ended_status(sentence))
    return render_refusal_for_model(sentence)


class _Call:
    """One tool call, from the request to the result."""

    def __init__(
        self,
        request: RunRequest,
        label: str,
        place: Place,
        files: RunFiles,
        emitter: Emitter | None,
    ) -> None:
        self._request = request
        self._label = label
        self._place = place
        self._files = files
        self._emitter = emitter

    async def run(self, settings: Settings) -> RunResult:
        """Run it; when the person presses Stop, end it and leave what it printed behind."""
        progress = Progress(
            self._label,
            self._request.run_id,
            settings.limits.seconds,
            lambda status: emit(self._emitter, "status", status),
        )
        ticket = start_run(
            "tool",
            settings.shared,
            self._request,
            self._place.user_id,
            CancelToken(),
            on_wait=progress.waiting,
            on_start=progress.running,
        )
        try:
            result = await ticket.result()
        except asyncio.CancelledError:
            # In a task of its own, because a person may press Stop twice.
            await asyncio.shield(keep_task(self._stop(ticket, progress, settings)))
            raise
        await progress.end()
        result = await self._files.keep(result, settings.model_output_kb * 1024)
        await self._show_files(result)
        await emit(self._emitter, "status", progress.ended(result))
        return result

    async def _show_files(self, result: RunResult) -> None:
        """Let the person see the files: under the answer, as soon as that is complete."""
        if self._files.embeds:
            await emit(self._emitter, "embeds", {"embeds": self._files.embeds})
        if not is_saved_chat(self._place.chat_id):
            if self._files.chips:
                await emit(self._emitter, "files", {"files": self._files.chips})
            return
        text, addresses = self._files.markdown(result), self._files.addresses
        if text or addresses:
            item = text_item(result.run_id, text) if text else None
            shown = show_after_turn(self._place, item, addresses, self._emitter)
            keep_task(shown)

    async def _stop(
        self, ticket: RunTicket, progress: Progress, settings: Settings
    ) -> None:
        result = await ticket.stop()
        await progress.end()
        await emit(self._emitter, "status", progress.ended(result))
        shown_bytes = settings.model_output_kb * 1024  # the model will read it
        result = await self._files.keep(result, shown_bytes)
        notes = self._files.notes(result)
        text = render_for_chat(result, self._label, shown_bytes, notes)
        item = text_item(result.run_id, text + self._files.markdown(result))
        # Open WebUI drops the result of a stopped call.
        shown = show_after_turn(
            self._place,
            item,
            self._files.addresses,
            self._emitter,
            STOPPED_TURN_SECONDS,
        )
        keep_task(shown)


def _languages_of(shared: SharedSettings) -> list[str]:
    """Names of the languages that runs can have, as far as it is known without a run.

    Open WebUI keeps a tool's schema from when it was saved, so they stand in the description and
    are no enum."""
    found = known_inventory(shared)
    if found is not None:
        return list(found.languages)
    image = "" if shared.codebox_url else shared.image
    return [
        entry.name for entry in known_languages() if may_have_language(image, entry)
    ]


def _describe_tool(valves: ToolValves) -> str:
    """The tool's description for models, true for the settings in force."""
    try:
        settings = resolve_settings(valves, None, os.environ)
    except SandboxError:  # each call will say so
        settings = resolve_settings(valves, None, {})
    limits = settings.limits
    targets = ", ".join(settings.shared.data_targets)
    data = f"Folders with data, read-only: {targets}.\n" if targets else ""
    languages = ", ".join(_languages_of(settings.shared))
    packages = _PACKAGES_OF_IMAGES.get(image_name(settings.shared.image), "")
    installs = _INSTALLS_ON if settings.may_install else _INSTALLS_OFF
    network = describe_network(settings.network)
    return f"""Run a program in a fresh, isolated Linux sandbox and get what it prints.

Use it to calculate, to work with data, or to check that code works. Print what you want to
see; in Python the value of a last bare expression is returned too, and figures of matplotlib
are shown to the user by plt.show() or at the end, without being saved.
The work folder, /mnt/data, holds the files that were attached to this chat and those that
earlier calls saved there, under their own names. What a program saves there is kept (at most
{limits.files} files of a call; no hidden ones, no empty ones) and shown to the user under your
answer, images as images. To point to one, write [name](sandbox:/mnt/data/name). Nothing else
persists: no variables, no processes. There is no keyboard.
{network}
{installs}{data}{packages}Languages: {languages}.
Limits: at most {limits.seconds:g} s, {limits.memory_mib} MB memory, \
{limits.cpus:g} CPU, {limits.processes} processes, {limits.work_mib} MB of files. The result \
holds at most {settings.model_output_kb} KB: of a longer output the start and the end.

:param code: The whole program, as plain text without Markdown fences.
:param language: The program's language, one of those above.
:param stdin: What the program reads from standard input.
:param packages: Names of Python packages to install first, where that is possible.
"""


if __name__ == "__main__":
    sys.exit(run_plugin_file("tool"))
