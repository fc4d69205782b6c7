"""Runs and findings on a terminal: what both command lines print, and their exit codes."""

import logging
import sys
from collections.abc import Sequence

from sandbox_core.engines.base import Finding
from sandbox_core.models import RunEvent, RunResult
from sandbox_core.outcome import Outcome

__all__ = [
    "exit_status",
    "print_event",
    "print_findings",
    "print_message",
    "send_log",
]

_EXIT_CODES = {
    Outcome.TIMEOUT: 124,
    Outcome.SANDBOX_ERROR: 125,
    Outcome.CANCELLED: 130,
}
_KILLED = 137


def print_event(event: RunEvent) -> None:
    """Program output to the stream that it was written to, at once."""
    if event.kind == "text":
        stream = sys.stdout if event.stream == "stdout" else sys.stderr
        print(event.text, end="", file=stream, flush=True)


def print_message(result: RunResult, verbose: bool) -> None:
    """What became of a run, once, and where the reason is when that is no fault of it."""
    if result.message:
        print(result.message, file=sys.stderr)
    if result.outcome is Outcome.SANDBOX_ERROR and not verbose:
        print("With --verbose the log is shown, too.", file=sys.stderr)


def send_log(verbose: bool) -> None:
    """The log goes to stderr when it is asked for, else nowhere: what concerns people is
    printed in any case."""
    handler = logging.StreamHandler() if verbose else logging.NullHandler()
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def print_findings(findings: Sequence[Finding]) -> int:
    """One line for each finding, and how to mend it; returns 0 if all are well, else 1."""
    for finding in findings:
        print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.text}")
        if finding.why and not finding.ok:
            print(f"      {finding.why}")
        if finding.mend and not finding.ok:
            print(f"      mend it: {finding.mend}")
    return 0 if all(finding.ok for finding in findings) else 1


def exit_status(result: RunResult) -> int:
    """The program's own exit code. If it did not end by itself: 124 after a time-out, 125 if
    it could not run, 130 when stopped, 128 + signal when killed, as shells and coreutils do.
    """
    if result.outcome in _EXIT_CODES:
        return _EXIT_CODES[result.outcome]
    code = result.shell_exit_code
    return _KILLED if code is None else code
