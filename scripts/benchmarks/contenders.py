"""Ways to run a program, each from nothing to its whole output, in a fresh process at least."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Protocol

from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner
from scripts.benchmarks.programs import Program
from scripts.benchmarks.subject import BenchmarkError, Subject, run_python

__all__ = [
    "Command",
    "Contender",
    "contenders",
    "docker_run",
    "output_of",
    "wait_for_warm_sandbox",
]

_SECONDS = 120
_REFILL_SECONDS = 60.0
_QUIET_SECONDS = 0.3
# What our sandboxes have too: one thread a CPU, no window system, a ready font cache.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/usr/local/share/run-code/matplotlib",
}
_OTHERS = Path(__file__).with_name("other_projects.py")


class Contender(Protocol):
    """One way. ``key`` names it in figures, ``title`` for people."""

    key: str
    title: str
    is_slow = False

    def can_run(self, program: Program) -> bool:
        """Whether what the program needs is there."""
        return True

    def milliseconds(self, program: Program) -> float:
        """Run it once. Raises BenchmarkError when it does not work."""

    def close(self) -> None:
        """Leave nothing behind."""


class _Ours(Contender):
    def __init__(self, runner: LocalRunner) -> None:
        self._runner = runner

    def milliseconds(self, program: Program) -> float:
        result = run_python(self._runner, program.code)
        program.check_output(str(result.stdout))
        return result.total_seconds * 1000

    def close(self) -> None:
        self._runner.close()


class _OursCold(_Ours):
    key, title = "cold", "this project, cold"


class _OursWarm(_Ours):
    key, title = "warm", "this project, warm"

    def milliseconds(self, program: Program) -> float:
        wait_for_warm_sandbox(self._runner)
        taken = super().milliseconds(program)
        wait_for_warm_sandbox(
            self._runner
        )  # or filling the pool slows down the next one
        return taken


class Command(Contender):
    """A command that gets the program as its last argument."""

    def __init__(self, key: str, title: str, command: list[str]) -> None:
        self.key, self.title = key, title
        self._command = command

    def command(self, code: str) -> list[str]:
        """The whole command for a program."""
        return [*self._command, code]

    def milliseconds(self, program: Program) -> float:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.monotonic()
            said = output_of(self.command(program.code), folder)
            seconds = time.monotonic() - begin
        program.check_output(said)
        return seconds * 1000


class _OnHost(Command):
    """A command that has the modules of this interpreter."""

    def can_run(self, program: Program) -> bool:
        return all(importlib.util.find_spec(name) for name in program.modules)


class _OnBareHost(Command):
    """A command that has the host's own Python, and maybe no modules at all."""

    def can_run(self, program: Program) -> bool:
        return not program.modules


class _OtherProject(Contender):
    """One of other_projects.py, in a process of the interpreter that has it."""

    is_slow = True

    def __init__(self, key: str, title: str, python: str, subject: Subject) -> None:
        self.key, self.title = key, title
        self._command = [python, str(_OTHERS), key, subject.image]

    def can_run(self, program: Program) -> bool:
        """It has modules of its own, or none."""
        return not program.modules

    def milliseconds(self, program: Program) -> float:
        said = output_of([*self._command, program.code])
        return float(json.loads(said.splitlines()[-1])["milliseconds"])


def contenders(subject: Subject, others_python: str) -> list[Contender]:
    """All ways that are there on this machine. ``others_python``: an interpreter with
    requirements-bench.txt, or empty."""
    found: list[Contender] = [
        _OursWarm(subject.runner(is_warm=True)),
        _OursCold(subject.runner()),
        docker_run(subject),
        docker_run(subject, "runc"),
        _OnHost("subprocess", "a plain subprocess", [sys.executable, "-c"]),
    ]
    if runsc := subject.runsc():
        command = [runsc, "--network=none", "do", "/usr/bin/python3", "-c"]
        found.append(
            _OnBareHost("runsc_do", "`runsc do` with the host's files", command)
        )
    if others_python:
        for key, title in (
            ("llm_sandbox", "llm-sandbox on Docker"),
            ("jupyter", "a Jupyter kernel for each call"),
        ):
            found.append(_OtherProject(key, title, others_python, subject))
    return found


def docker_run(subject: Subject, runtime: str = "") -> Command:
    """Docker's own command with gVisor, or with another runtime."""
    runtime = runtime or subject.runtime
    command = ["docker", "run", "--rm", f"--runtime={runtime}", "--network=none"]
    command += ["--workdir=/tmp"]
    for name, value in _ENVIRONMENT.items():
        command.append(f"--env={name}={value}")
    title = f"`docker run --runtime={runtime}`"
    command += [subject.image, "python3", "-c"]
    return Command(f"docker_run_{runtime}", title, command)


def wait_for_warm_sandbox(runner: LocalRunner, language: str = "python") -> None:
    """Wait until the pool has one, and for what making it has stirred up to settle."""
    request = RunRequest((Step(language, ""),), limits=Limits())
    end = time.monotonic() + _REFILL_SECONDS
    while not runner.prepare(request):
        if time.monotonic() > end:
            raise BenchmarkError("The pool made no warm sandbox.")
        time.sleep(0.02)
    time.sleep(_QUIET_SECONDS)


def output_of(command: list[str], folder: str | None = None) -> str:
    """What a command prints. Raises BenchmarkError when it fails."""
    name = " ".join(command[:2])
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(f"{name}: {error}") from error
    if done.returncode:
        raise BenchmarkError(f"{name}: {done.stderr.strip()[-500:]}")
    return done.stdout
