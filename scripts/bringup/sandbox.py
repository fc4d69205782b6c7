"""Where the code will run: an existing Docker Engine with gVisor, one of our own, or none."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .progress import Progress, StepFailed

__all__ = [
    "docker_has_gvisor",
    "ensure_image",
    "prepare_embedded",
    "private_host_is_down",
    "start_private_host",
    "stop_private_host",
]

_ROOT = Path(__file__).resolve().parents[2]
_SANDBOX_HOST = _ROOT / "scripts" / "sandbox-host"
_EMBEDDED_HOST = _ROOT / "scripts" / "embedded-host"
_IMAGE = "run-code-python:latest"
_IS_DOWN = 3  # exit code of `sandbox-host status`


def docker_has_gvisor() -> bool:
    """Tell whether the Docker Engine that this shell would use knows the runtime runsc."""
    said = _docker("info", "--format", "{{json .Runtimes}}")
    try:
        return said is not None and "runsc" in json.loads(said)
    except (ValueError, TypeError):
        return False


def ensure_image(folder: Path, progress: Progress) -> None:
    """Build the sandbox image where that Docker Engine lacks it. Raises StepFailed."""
    if _docker("image", "inspect", "--format", "{{.Id}}", _IMAGE) is not None:
        return
    progress.run(
        ["docker", "build", "--tag", _IMAGE, str(_ROOT / "images" / "python")],
        what=f"Building the sandbox image {_IMAGE} (some minutes)",
        advice="Mend what the log says, or load the image with 'docker load'.",
        log=folder / "image.log",
    )


def prepare_embedded(folder: Path, python: Path) -> dict[str, str]:
    """Get gVisor's program and an image into `folder`; return the settings that Open WebUI
    needs for them. `python` is what sandboxes see a copy of where no image can be made.

    Raises StepFailed; the script has then said why on standard error.
    """
    done = _run_script(
        [str(_EMBEDDED_HOST)],
        {"EMBEDDED_HOST_DIR": str(folder), "PYTHON": str(python)},
    )
    if done.returncode != 0:
        raise StepFailed(
            f"'scripts/embedded-host' ended with code {done.returncode}: mend what it says "
            "above, then run this again."
        )
    lines = (line.partition("=") for line in done.stdout.splitlines())
    return {name: value for name, _, value in lines}


def private_host_is_down() -> bool:
    """Tell whether the private Docker Engine has yet to be started."""
    if os.geteuid() != 0:
        raise StepFailed(
            "Starting a private Docker Engine needs root: run this with sudo, or without "
            "--private-docker."
        )
    return _sandbox_host("status").returncode == _IS_DOWN


def start_private_host() -> str:
    """Start the private Docker Engine, or find it running; return its address.

    Raises StepFailed; the script has then said why on standard error.
    """
    done = _sandbox_host("up")
    lines = done.stdout.strip().splitlines() or [""]
    name, _, address = lines[-1].partition("=")
    if done.returncode != 0 or name != "DOCKER_HOST":
        raise StepFailed(
            f"'scripts/sandbox-host up' ended with code {done.returncode}: mend what it "
            "says above, then run this again."
        )
    return address


def stop_private_host() -> None:
    """Stop the private Docker Engine. Raises StepFailed."""
    if _sandbox_host("down").returncode != 0:
        raise StepFailed("scripts/sandbox-host could not stop; it said why above.")


def _sandbox_host(command: str) -> subprocess.CompletedProcess[str]:
    return _run_script([str(_SANDBOX_HOST), command], {})


def _run_script(
    argv: list[str], variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, **variables},
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
