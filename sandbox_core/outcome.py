"""How a run ended: one enum, and the pure decision from what was observed."""

import signal
from dataclasses import dataclass
from enum import StrEnum

from sandbox_core.limits import Limits

__all__ = ["Evidence", "Outcome", "classify", "describe_outcome", "signal_name"]


class Outcome(StrEnum):
    """The one word for how a run ended, in order of precedence."""

    SANDBOX_ERROR = "sandbox_error"
    CANCELLED = "cancelled"
    MEMORY_LIMIT = "memory_limit"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    PROCESS_LIMIT = "process_limit"
    DISK_LIMIT = "disk_limit"
    COMPILE_ERROR = "compile_error"
    FAILED = "failed"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What guest, host and engine saw of one run. Says nothing yet about what it means.

    ``done``: the guest told its end in full. ``oom``: the engine's out-of-memory flag, which
    is evidence and not a verdict: its killer may have taken one process and left the rest.
    ``exit_code`` and ``signal`` are those of the step that ended the run; at most one is set,
    and with ``compiling`` they are the compiler's, which names ``error_line`` first.
    ``missing`` says which language the image does not have, when that ended it.
    """

    error: str = ""
    cancelled: bool = False
    done: bool = False
    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    memory_killed: bool = False
    timed_out: bool = False
    output_capped: bool = False
    processes_killed: bool = False
    processes_full: bool = False
    disk_full: bool = False
    compiling: bool = False
    error_line: int | None = None
    missing: str = ""


def classify(seen: Evidence) -> Outcome:
    """The outcome of a run from its evidence; a table in the tests pins every row.

    A wall that was touched by a program which then ended with 0 is a note, not an outcome.
    """
    succeeded = seen.done and seen.exit_code == 0
    rows = (
        (bool(seen.error), Outcome.SANDBOX_ERROR),
        (seen.cancelled, Outcome.CANCELLED),
        (seen.memory_killed or _oom_ended_it(seen), Outcome.MEMORY_LIMIT),
        (seen.timed_out, Outcome.TIMEOUT),
        (seen.output_capped, Outcome.OUTPUT_LIMIT),
        (seen.processes_killed, Outcome.PROCESS_LIMIT),
        (seen.processes_full and not succeeded, Outcome.PROCESS_LIMIT),
        (seen.disk_full and not succeeded, Outcome.DISK_LIMIT),
        (not seen.done, Outcome.SANDBOX_ERROR),
        (seen.compiling and not succeeded, Outcome.COMPILE_ERROR),
        (not succeeded, Outcome.FAILED),
    )
    return next((outcome for holds, outcome in rows if holds), Outcome.OK)


def _oom_ended_it(seen: Evidence) -> bool:
    killed_one = seen.signal == signal.SIGKILL or seen.exit_code == 1
    return seen.oom and (not seen.done or killed_one)


def describe_outcome(outcome: Outcome, seen: Evidence, limits: Limits) -> str:
    """One plain sentence for people and models; empty when all went well."""
    if outcome is Outcome.FAILED:
        return _describe_failure(seen)
    subject = "compiler" if seen.compiling else "program"
    place = f" (line {seen.error_line})" if seen.error_line else ""
    seconds = limits.compile_seconds if seen.compiling else limits.seconds
    sentences = {
        Outcome.OK: "",
        Outcome.SANDBOX_ERROR: seen.error
        or "The sandbox ended unexpectedly. Try again; if it stays, tell your administrator.",
        Outcome.CANCELLED: "The run was stopped on request.",
        Outcome.MEMORY_LIMIT: (
            f"The {subject} was stopped: it used more than the memory limit of "
            f"{limits.memory_mib} MB."
        ),
        Outcome.TIMEOUT: (
            f"The {subject} was stopped after {seconds:g} s, the time limit (timeout)."
        ),
        Outcome.OUTPUT_LIMIT: (
            f"The {subject} was stopped: it printed more than the output limit of "
            f"{limits.output_mib} MB."
        ),
        Outcome.PROCESS_LIMIT: (
            f"The {subject} ran into the process limit of {limits.processes} processes and "
            f"threads."
        ),
        Outcome.DISK_LIMIT: (
            f"The {subject} ran out of disk space: the disk limit is {limits.work_mib} MB in "
            f"the work folder and {limits.tmp_mib} MB in /tmp."
        ),
        Outcome.COMPILE_ERROR: f"The program does not compile{place}, so it was not run.",
    }
    return sentences[outcome]


def _describe_failure(seen: Evidence) -> str:
    if seen.missing:
        return f"Nothing was run: {seen.missing}."
    if seen.signal is not None:
        name = signal_name(seen.signal)
        return f"The program was killed by signal {seen.signal} ({name})."
    if seen.exit_code is None:
        return "The program failed."
    return f"The program failed with exit code {seen.exit_code}."


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
