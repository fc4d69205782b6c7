"""What is measured: the machine, its Docker Engine with gVisor, and the runner over them."""

import json
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sandbox_core.engines.docker import DockerEngine
from sandbox_core.limits import Limits
from sandbox_core.models import OnEvent, RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.pool import PoolSettings
from sandbox_core.runner import LocalRunner, Runner

__all__ = ["BenchmarkError", "Subject", "docker", "run_python", "run_request"]

_SECONDS = 120


class BenchmarkError(Exception):
    """Something that is measured does not work; the text says what."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An image and a runtime of the Docker Engine that DOCKER_HOST names, and the interpreter
    of other projects to compare with, if there is one."""

    image: str
    runtime: str
    others_python: str = ""

    def runner(
        self, engine: DockerEngine | None = None, is_warm: bool = False
    ) -> LocalRunner:
        """A runner as the plugins have it, with or without a pool, or over an engine that
        watches more closely."""
        engine = engine or DockerEngine(image=self.image, runtime=self.runtime)
        pool = PoolSettings() if is_warm else None
        return LocalRunner(engine, self.image, self.runtime, pool=pool)

    def runsc(self) -> str:
        """Path of gVisor's binary, if the engine is on this host; else empty."""
        info = json.loads(docker("info", "--format", "{{json .Runtimes}}"))
        path = str(info.get(self.runtime, {}).get("path", ""))
        return path if shutil.which(path) else ""

    def facts(self) -> dict[str, str]:
        """What the numbers depend on, by name. Raises BenchmarkError without an engine."""
        info = json.loads(docker("info", "--format", "{{json .}}"))
        runtime = info["Runtimes"].get(self.runtime)
        if runtime is None:
            raise BenchmarkError(f"Docker knows no runtime {self.runtime}.")
        return {
            "processor": _processor(),
            "cores": str(os.cpu_count()),
            "load before": f"{os.getloadavg()[0]:.1f}",
            "kernel": info["KernelVersion"].partition("-")[0],
            "Docker Engine": info["ServerVersion"],
            "gVisor": _version_of(runtime["path"]),
            "platform": _platform_of(runtime.get("runtimeArgs") or []),
            "Python": platform.python_version(),
        }


def run_python(
    runner: Runner,
    code: str,
    limits: Limits | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Run a program of Python. See run_request."""
    steps = (Step("python", code),)
    request = RunRequest(steps, limits=limits or Limits(), user="bench")
    return run_request(runner, request, on_event)


def run_request(
    runner: Runner, request: RunRequest, on_event: OnEvent | None = None
) -> RunResult:
    """Run what must end well. Raises BenchmarkError when it does not."""
    result = runner.run(request, on_event)
    if result.outcome is not Outcome.OK:
        raise BenchmarkError(f"A run ended with {result.outcome}: {result.message}")
    return result


def docker(*arguments: str) -> str:
    """What a docker command prints. Raises BenchmarkError when it fails."""
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(f"docker {arguments[0]}: {error}") from error
    if done.returncode:
        raise BenchmarkError(f"docker {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(names, platform.machine())


def _version_of(runsc: str) -> str:
    """The version of a runtime's binary, which only a daemon on this host shares with us."""
    try:
        done = subprocess.run(
            [runsc, "--version"], capture_output=True, text=True, timeout=10
        )
    except OSError:
        return "not known: it is on another host"
    return done.stdout.partition("\n")[0].removeprefix("runsc version ")


def _platform_of(arguments: list[str]) -> str:
    named = [text for text in arguments if text.startswith("--platform=")]
    return named[-1].partition("=")[2] if named else "systrap (gVisor's default)"
