"""The check of the sandbox for an administrator, from the button's own dialog."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from owui_plugin.backend import examine_backend
from owui_plugin.dialogs import show_report
from owui_plugin.host import Emitter, emit
from owui_plugin.progress import ended_status
from owui_plugin.settings import SharedSettings
from sandbox_core.engines.base import Finding

__all__ = ["check_sandbox", "report_text"]

_LOOKING = "Checking the sandbox: it runs a dozen hostile programs"


async def check_sandbox(
    shared: SharedSettings, emitter: Emitter | None, caller: Any
) -> None:
    """Look, prove, and show each finding. Called for administrators only: the findings name
    paths and versions of the host."""
    await emit(emitter, "status", {"description": _LOOKING, "done": False})
    # Never the loop's own executor, and no place among the runs.
    executor = ThreadPoolExecutor(1, "run-code-check")
    try:
        loop = asyncio.get_running_loop()
        findings = await loop.run_in_executor(executor, examine_backend, shared)
    finally:
        executor.shutdown(wait=False)
    faults = sum(not finding.ok for finding in findings)
    sentence = f"{faults} to mend" if faults else "all is well"
    await emit(emitter, "status", ended_status(f"Sandbox checked: {sentence}"))
    await show_report(
        caller, f"Check of the sandbox: {sentence}", report_text(findings)
    )


def report_text(findings: Sequence[Finding]) -> str:
    """The findings as Markdown: what is wrong comes first, with its mend."""
    lines = []
    for finding in sorted(findings, key=lambda entry: entry.ok):
        lines.append(
            f"{'✅' if finding.ok else '❌'} **{finding.name}**: {finding.text}"
        )
        if not finding.ok:
            lines += [
                line for line in (finding.why, f"Mend it: `{finding.mend}`") if line
            ]
    return "\n\n".join(lines)
