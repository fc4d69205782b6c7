"""The Run code button: an Action under every answer that runs the code in it."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from owui_plugin.blocks import (
    INSTALLS_OFF_NOTE,
    NOT_CLOSED_NOTE,
    BlockKind,
    CodeBlock,
    blocks_label,
    find_blocks,
    is_install,
    runnable,
    why_nothing_runs,
)
from owui_plugin.check import check_sandbox
from owui_plugin.command_line import run_plugin_file
from owui_plugin.dialogs import (
    ask_to_check,
    ask_to_stop,
    choose_blocks,
    choose_language,
)
from owui_plugin.file_store import Place
from owui_plugin.host import Emitter, emit, emitter_for, stored_message
from owui_plugin.interrupted import mark_interrupted_runs_soon
from owui_plugin.line_map import join_steps, line_notes
from owui_plugin.live_output import LiveOutput
from owui_plugin.messages import message_text
from owui_plugin.presenter import Presenter
from owui_plugin.progress import Progress, ended_status
from owui_plugin.render import render_for_chat, running_text
from owui_plugin.run_files import RunFiles
from owui_plugin.runtime import claim, keep_task, start_run
from owui_plugin.settings import Settings, resolve_settings
from owui_plugin.update_notice import tell_of_update
from owui_plugin.valves import ActionValves, PersonalValves
from sandbox_core.egress import reaches_out
from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import SandboxError
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.requirements import asks_for_packages

__all__ = ["Action"]

_DOUBLE_CLICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Click:
    """One press of the button: whose, where, and the ways back to that browser.

    What goes to ``emitter`` Open WebUI stores too; ``teller`` only shows it.
    """

    user_id: str
    chat_id: str
    message_id: str
    is_admin: bool
    posted: dict[str, Any]
    stored: dict[str, Any] | None
    emitter: Emitter | None
    teller: Emitter | None
    caller: Any


class Action:
    """What Open WebUI loads: one button, called Run code."""

    Valves = ActionValves
    UserValves = PersonalValves

    def __init__(self) -> None:
        self.valves = self.Valves()
        mark_interrupted_runs_soon()

    async def action(
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __event_emitter__: Any = None,
        __event_call__: Any = None,
    ) -> dict[str, Any] | None:
        """Run the code of the clicked message and put the result under it."""
        valves = self.valves
        user = __user__ or {}
        cancel = CancelToken()
        chat_id, message_id = str(body.get("chat_id")), str(body.get("id"))
        user_id = str(user.get("id"))
        claimed, entry = claim((user_id, chat_id, message_id), cancel)
        if claimed is None:
            await _second_click(entry, __event_call__)
            return None
        try:
            teller = await emitter_for(
                user_id, chat_id, message_id, str(body.get("session_id"))
            )
            click = _Click(
                user_id=user_id,
                chat_id=chat_id,
                message_id=message_id,
                is_admin=user.get("role") == "admin",
                posted=_clicked_message(body),
                stored=await stored_message(chat_id, message_id),
                emitter=__event_emitter__,
                teller=teller or __event_emitter__,
                caller=__event_call__,
            )
            settings = resolve_settings(valves, user.get("valves"), os.environ)
            if click.is_admin and settings.update_address:
                keep_task(tell_of_update(settings.update_address, click.emitter))
            return await _run_click(click, settings, cancel)
        except SandboxError as error:
            await _refuse_click(__event_emitter__, str(error))
            return None
        finally:
            claimed.release()


def _clicked_message(body: dict[str, Any]) -> dict[str, Any]:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return {}
    clicked = [
        entry
        for entry in messages
        if isinstance(entry, dict) and entry.get("id") == body.get("id")
    ]
    return clicked[-1] if clicked else {}


async def _second_click(entry: dict[str, Any], caller: Any) -> None:
    """A double click is one click; a later one asks whether to stop the run."""
    if time.monotonic() - entry["since"] < _DOUBLE_CLICK_SECONDS:
        return
    if await ask_to_stop(caller):
        entry["cancel"]()


async def _refuse_click(emitter: Emitter | None, sentence: str) -> None:
    await emit(emitter, "status", ended_status(sentence))
    await emit(emitter, "notification", {"type": "warning", "content": sentence})


async def _run_click(
    click: _Click, settings: Settings, cancel: CancelToken
) -> dict[str, Any] | None:
    # The stored message knows which parts of the answer are tool calls, reasoning or ours.
    text = message_text(click.stored) or message_text(click.posted)
    blocks = find_blocks(text)
    candidates = await _candidates(blocks, click.caller)
    installs, programs, notes = _sort_blocks(candidates, settings)
    if not programs:
        sentence = notes[0] if notes else why_nothing_runs(blocks)
        await _refuse_click(click.emitter, sentence)
        _offer_check(click, settings, sentence)
        return None
    chosen = await choose_blocks(click.caller, programs, click.is_admin)
    if isinstance(chosen, str):
        await check_sandbox(settings.shared, click.emitter, click.caller)
        return None
    if not chosen or cancel.is_set():
        return None
    before = [block for block in installs if block.number < chosen[0].number]
    chosen = [*before, *chosen]
    notes += [NOT_CLOSED_NOTE for block in chosen if not block.closed]
    label = blocks_label(chosen, len(candidates))
    return await _run_blocks(click, settings, cancel, chosen, label, notes)


def _sort_blocks(
    candidates: Sequence[CodeBlock], settings: Settings
) -> tuple[list[CodeBlock], list[CodeBlock], list[str]]:
    """Blocks that install what a program after them needs, the programs to choose from, and a
    note on blocks that are neither. Blocks that install are programs where there are no others,
    and where programs have a network and nobody installs for them.
    """
    if reaches_out(settings.network) and not settings.may_install:
        return [], list(candidates), []
    others = [block for block in candidates if is_install(block)]
    programs = [block for block in candidates if block not in others]
    installs = []
    if settings.may_install:
        installs = [
            block
            for block in others
            if asks_for_packages(Step(block.language, block.code))
        ]
    notes = [INSTALLS_OFF_NOTE] if len(installs) < len(others) else []
    if not programs:
        installs, programs = [], installs
    return installs, programs, notes


def _offer_check(click: _Click, settings: Settings, sentence: str) -> None:
    """Ask an administrator, beside the click, which must not wait for the answer."""

    async def ask() -> None:
        if not await ask_to_check(click.caller, sentence):
            return
        try:
            await check_sandbox(settings.shared, click.emitter, click.caller)
        except SandboxError as error:
            await _refuse_click(click.emitter, str(error))

    if click.is_admin:
        keep_task(ask())


async def _candidates(blocks: Sequence[CodeBlock], caller: Any) -> list[CodeBlock]:
    """The runnable blocks; if there are none, the last untagged one in a language picked."""
    candidates = runnable(blocks)
    untagged = [block for block in blocks if block.kind is BlockKind.ASK]
    if candidates or not untagged:
        return candidates
    language = await choose_language(caller, untagged[-1])
    return [untagged[-1].in_language(language)] if language else []


async def _run_blocks(
    click: _Click,
    settings: Settings,
    cancel: CancelToken,
    chosen: Sequence[CodeBlock],
    label: str,
    notes: list[str],
) -> dict[str, Any] | None:
    steps, line_map = join_steps(chosen)
    place = Place(click.user_id, click.chat_id, click.message_id)
    files = RunFiles(place, settings.quota, settings.shared.data_targets)
    request = RunRequest(
        steps=steps,
        files=await files.bring_in(settings.limits),
        limits=settings.limits,
        user=click.user_id,
        chat=click.chat_id,
        network=settings.network,
    )
    run_id = request.run_id
    presenter = Presenter(
        click.chat_id,
        click.message_id,
        click.stored,
        message_text(click.posted),
        click.teller,
    )
    progress = Progress(
        label,
        run_id,
        settings.limits.seconds,
        lambda status: presenter.show_running(run_id, running_text(label), status),
    )
    live = LiveOutput(
        lambda preview: presenter.show_preview(run_id, running_text(label, preview))
    )
    ticket = start_run(
        "function",
        settings.shared,
        request,
        click.user_id,
        cancel,
        on_event=live.take,
        on_wait=progress.waiting,
        on_start=progress.running,
    )
    watch = keep_task(live.run())

    async def finish(result: RunResult) -> dict[str, Any] | None:
        watch.cancel()
        await progress.end()
        if result.failed_step is not None:
            places = line_notes(str(result.stderr), steps, line_map, result.failed_step)
            notes.extend(places)
        shown_bytes = settings.shown_output_kb * 1024
        if result.outcome is Outcome.SANDBOX_ERROR:
            _offer_check(click, settings, result.message)
        result = await files.keep(result, shown_bytes)
        notes.extend(files.notes(result))
        if files.embeds:
            await emit(click.emitter, "embeds", {"embeds": files.embeds})
        text = render_for_chat(result, label, shown_bytes, notes)
        return await presenter.show_result(
            run_id,
            text + files.markdown(result),
            progress.ended(result),
            files.addresses,
        )

    try:
        return await finish(await ticket.result())
    except asyncio.CancelledError:
        await finish(await ticket.stop())
        raise


if __name__ == "__main__":
    sys.exit(run_plugin_file("function"))
