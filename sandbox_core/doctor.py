"""Looks at a host and proves by running things that sandboxes work on it."""

from collections.abc import Sequence

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import Engine, Finding
from sandbox_core.languages import LANGUAGES, PYTHON, Language
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner, Runner

__all__ = ["examine"]

_CHECK_SECONDS = 10.0
_PROOF_SECONDS = 5.0
_HOG = "chunks = []\nwhile True:\n    chunks.append(bytearray(10_000_000))\n"
_LOOP = "while True:\n    pass\n"
_FORKS = (
    "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)\n"
)


def examine(
    engine: Engine,
    image: str,
    runtime: str,
    languages: Sequence[Language] = LANGUAGES,
    limits: Limits | None = None,
) -> list[Finding]:
    """What is there and what is missing; when nothing is, proofs by doing. Never raises for
    what a host lacks. Takes some seconds: it starts a handful of sandboxes. ``languages``
    are those of this image, and run within ``limits`` (the default ones); that limits bite
    is proven in Python."""
    findings = engine.check(Deadline(_CHECK_SECONDS))
    if not all(finding.ok for finding in findings):
        return findings
    runner = LocalRunner(engine, image, runtime)
    try:
        findings += [
            _prove_language(runner, language, limits or Limits())
            for language in languages
        ]
        if PYTHON in languages and all(finding.ok for finding in findings):
            findings += [
                _prove_limit(runner, "time limit", _LOOP, Outcome.TIMEOUT),
                _prove_limit(runner, "memory limit", _HOG, Outcome.MEMORY_LIMIT),
                _prove_limit(runner, "process limit", _FORKS, Outcome.PROCESS_LIMIT),
            ]
    finally:
        runner.close()
    return findings


def _prove_language(runner: Runner, language: Language, limits: Limits) -> Finding:
    test = language.self_test
    steps = (Step(language.name, test.code),)
    result = runner.run(RunRequest(steps, limits=limits))
    if result.outcome is Outcome.OK and str(result.stdout) == test.expected_stdout:
        text = f"{language.title} runs in gVisor ({result.total_seconds:.2f} s)."
        return Finding(language.name, True, text)
    return Finding(
        language.name,
        False,
        f"{language.title} does not run: {_what_happened(result)}",
        "Build the image again (docs/setup.md, “The sandbox image”), and look at the log.",
    )


def _prove_limit(runner: Runner, name: str, code: str, expected: Outcome) -> Finding:
    limits = Limits().lowered(seconds=_PROOF_SECONDS, memory_mib=128, processes=32)
    result = runner.run(RunRequest(steps=(Step("python", code),), limits=limits))
    if result.outcome is expected:
        return Finding(name, True, f"The {name} bites: {result.message}")
    return Finding(
        name,
        False,
        f"The {name} did not bite: {_what_happened(result)}",
        "Do not use this host for other people's code; see docs/setup.md, “Limits”.",
    )


def _what_happened(result: RunResult) -> str:
    return (
        result.message
        or f"outcome {result.outcome}, stdout {str(result.stdout)[:200]!r}"
    )
