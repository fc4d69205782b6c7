"""Looks at a host and proves by running things that sandboxes work on it."""

import os
import secrets
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sandbox_core.deadline import Deadline
from sandbox_core.egress import NO_NETWORK
from sandbox_core.engines.base import CancelToken, Engine, Finding
from sandbox_core.engines.machine import (
    machine_suspects,
    read_machine,
    runsc_upgrade_command,
)
from sandbox_core.errors import EngineError, SandboxError
from sandbox_core.inventory import inventory_request, read_inventory
from sandbox_core.language import Language
from sandbox_core.languages import known_languages
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.leases import current_owner
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.proofs import PROOF_NAMES, PROOFS, Proof, host_file_proof
from sandbox_core.runner import LocalRunner, Runner

__all__ = ["examine", "examine_runner", "prove_limits", "reasons_to_refuse"]

_CHECK_SECONDS = 10.0
_PROOF_SECONDS = 8.0
_GONE_SECONDS = 5.0


def examine(
    engine: Engine,
    image: str,
    runtime: str,
    languages: Sequence[Language] | None = None,
    limits: Limits | None = None,
    accepted: Collection[str] = (),
) -> list[Finding]:
    """What is there and what is missing; when nothing is, proofs by doing. Never raises for
    what a host lacks. Takes some seconds: it starts a dozen sandboxes. ``languages`` are
    those of this image (all), and run within ``limits`` (the default ones); that limits bite is
    proven in Python. A finding that is named in ``accepted`` counts as well, and says so.
    """
    findings = engine.check(Deadline(_CHECK_SECONDS))
    if not all(finding.ok for finding in findings):
        return findings
    runner = LocalRunner(engine, image, runtime)
    try:
        findings += examine_runner(
            runner, engine, languages or known_languages(), limits or Limits()
        )
    finally:
        runner.close()
    return [_accept(finding, accepted) for finding in findings]


def examine_runner(
    runner: Runner, engine: Engine, languages: Sequence[Language], limits: Limits
) -> list[Finding]:
    """The proofs of examine(), with this runner over this engine."""
    findings: list[Finding] = []
    present = _present(runner, languages)
    for language in present:
        findings.append(_prove_language(runner, language, limits))
    if findings and not any(entry.ok for entry in findings) and engine.is_here:
        findings += machine_suspects(read_machine(), engine.name == "runsc")
    if len(present) < len(languages):
        findings.append(_absent(languages, present))
    if PYTHON in languages and all(finding.ok for finding in findings):
        findings += prove_limits(runner)
        findings.append(_prove_nothing_left(engine))
    return findings


def prove_limits(runner: Runner, cancel: CancelToken | None = None) -> list[Finding]:
    """One finding for each program that tries to break out of a limit. Those after a
    ``cancel`` mean nothing."""
    with _planted_file() as path:
        proofs = (*PROOFS, host_file_proof(path, _hosts()))
        return [_prove(runner, proof, cancel or CancelToken()) for proof in proofs]


def reasons_to_refuse(
    findings: Sequence[Finding], accepted: Collection[str]
) -> list[Finding]:
    """The limits that do not bite and that nobody has accepted by name."""
    return [
        finding
        for finding in findings
        if finding.name in PROOF_NAMES
        and not finding.ok
        and finding.name not in accepted
    ]


def _accept(finding: Finding, accepted: Collection[str]) -> Finding:
    if finding.ok or finding.name not in accepted:
        return finding
    text = f"{finding.text} An administrator has accepted this by name."
    return replace(finding, ok=True, text=text)


def _present(runner: Runner, languages: Sequence[Language]) -> list[Language]:
    """Those that the image has; all of them when it cannot be told."""
    try:
        found = read_inventory(runner.run(inventory_request())).languages
    except SandboxError:
        return list(languages)
    return [entry for entry in languages if entry.name in found]


def _absent(languages: Sequence[Language], present: Sequence[Language]) -> Finding:
    absent = [entry for entry in languages if entry not in present]
    titles = ", ".join(entry.title for entry in absent)
    images = ", ".join(sorted({entry.image for entry in absent if entry.image}))
    text = f"Not in this image: {titles}."
    if images:
        text += f" In the image {images} they are."
    return Finding("languages", True, text)


def _prove_language(runner: Runner, language: Language, limits: Limits) -> Finding:
    test = language.self_test
    steps = (Step(language.name, test.code),)
    result = runner.run(RunRequest(steps, limits=limits, network=NO_NETWORK))
    if result.outcome is Outcome.OK and str(result.stdout) == test.expected_stdout:
        kernel = " ".join(result.evidence.get("kernel", "").split()[:3])
        text = (
            f"{language.title} runs in gVisor ({kernel}, {result.total_seconds:.2f} s)."
        )
        return Finding(language.name, True, text)
    return Finding(
        language.name,
        False,
        f"{language.title} does not run: {_what_happened(result)}",
        "Build the image again (docs/setup.md, “The sandbox image”), and look at the log.",
        f"Code blocks in {language.title} would fail.",
    )


def _prove(runner: Runner, proof: Proof, cancel: CancelToken) -> Finding:
    limits = Limits().lowered(**({"seconds": _PROOF_SECONDS} | proof.limits))
    steps = (Step(PYTHON.name, proof.code),)
    request = RunRequest(steps, limits=limits, network=NO_NETWORK)
    result = runner.run(request, cancel=cancel)
    if proof.holds(result):
        return Finding(proof.name, True, f"{proof.title}. {result.message}".rstrip())
    text = f"Not proven: “{proof.title}”. What happened: {_what_happened(result)}"
    mend = (
        proof.mend or f"{runsc_upgrade_command(read_machine())}   # then run this again"
    )
    return Finding(proof.name, False, text, mend, proof.why)


def _prove_nothing_left(engine: Engine) -> Finding:
    name, deadline = "nothing-left", Deadline(_GONE_SECONDS)
    try:
        while left := _own_sandboxes(engine):
            if deadline.passed():
                return Finding(
                    name,
                    False,
                    f"{left} sandboxes of this check are still there after it.",
                    "run this again: what is left is removed when its lease ends",
                    "Otherwise each run costs the host memory for ever.",
                )
            time.sleep(0.1)
    except EngineError as error:
        return Finding(name, False, f"It cannot be told what is left: {error}")
    return Finding(name, True, "Nothing of these sandboxes is left.")


def _own_sandboxes(engine: Engine) -> int:
    owner = current_owner()
    return sum(
        lease.owner == owner and not lease.run_id.startswith("idle-")
        for lease in engine.leftovers()
    )


def _hosts() -> str:
    """What this machine calls others; empty when it cannot be read."""
    try:
        return Path("/etc/hosts").read_text("utf-8", "replace")
    except OSError:
        return ""


@contextmanager
def _planted_file() -> Iterator[str]:
    """A file that everybody on this machine can read; yields its path."""
    number, path = tempfile.mkstemp(prefix="run-code-planted-")
    try:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex())
        os.chmod(path, 0o644)
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)


def _what_happened(result: RunResult) -> str:
    return (
        result.message
        or f"outcome {result.outcome}, stdout {str(result.stdout)[:200]!r}"
    )
