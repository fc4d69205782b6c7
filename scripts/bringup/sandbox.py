"""Where the code will run: an existing Docker Engine with gVisor, else one of our own."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .progress import Progress, StepFailed

__all__ = ["SandboxHost", "find_sandbox_host", "stop_sandbox_host"]

_ROOT = Path(__file__).resolve().parents[2]
_SANDBOX_HOST = _ROOT / "scripts" / "sandbox-host"
_IMAGE = "run-code-python:latest"
_IS_DOWN = 3  # exit code of `sandbox-host status`


@dataclass(frozen=True)
class SandboxHost:
    """A Docker Engine with runsc and the sandbox image.

    `docker_host` is its address ("" = Docker's default); `started` tells whether this call
    started it.
    """

    docker_host: str
    started: bool


def find_sandbox_host(
    folder: Path, progress: Progress, *, private: bool
) -> SandboxHost:
    """Find or start a Docker Engine that runs sandboxes in gVisor; `folder` gets the logs.

    `private`: take our own, because an earlier call started it. Raises StepFailed.
    """
    if not private and _docker_has_runsc():
        progress.say("Using the Docker Engine of this machine: it has gVisor (runsc)")
        _ensure_image(folder, progress)
        return SandboxHost(os.environ.get("DOCKER_HOST", ""), started=False)
    if os.geteuid() != 0:
        raise StepFailed(
            "No Docker Engine with gVisor (runtime 'runsc') is reachable, and starting a "
            "private one needs root: run this with sudo, or set DOCKER_HOST to one that has "
            "it (docs/setup.md)."
        )
    was_down = _status() == _IS_DOWN
    progress.say(
        "Starting a private Docker Engine with gVisor (minutes the first time)"
    )
    started = subprocess.run(
        [str(_SANDBOX_HOST), "up"], stdout=subprocess.PIPE, text=True, check=False
    )
    lines = started.stdout.strip().splitlines() or [""]
    name, _, address = lines[-1].partition("=")
    if started.returncode != 0 or name != "DOCKER_HOST":
        raise StepFailed("scripts/sandbox-host could not start; it said why above.")
    return SandboxHost(address, started=was_down)


def stop_sandbox_host() -> None:
    """Stop the private Docker Engine. Raises StepFailed."""
    if subprocess.run([str(_SANDBOX_HOST), "down"], check=False).returncode != 0:
        raise StepFailed(
            "scripts/sandbox-host could not be stopped; it said why above."
        )


def _status() -> int:
    return subprocess.run(
        [str(_SANDBOX_HOST), "status"], stdout=subprocess.DEVNULL, check=False
    ).returncode


def _docker_has_runsc() -> bool:
    said = _docker("info", "--format", "{{json .Runtimes}}")
    try:
        return said is not None and "runsc" in json.loads(said)
    except (ValueError, TypeError):
        return False


def _ensure_image(folder: Path, progress: Progress) -> None:
    if _docker("image", "inspect", "--format", "{{.Id}}", _IMAGE) is not None:
        return
    progress.run(
        ["docker", "build", "--tag", _IMAGE, str(_ROOT / "images" / "python")],
        what=f"Building the sandbox image {_IMAGE} (some minutes)",
        advice="Mend what the log says, or load the image with 'docker load'.",
        log=folder / "image.log",
    )


def _docker(*arguments: str) -> str | None:
    """Output of a docker command; None when there is no docker or it does not answer."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    try:
        done = subprocess.run(
            [docker, *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
