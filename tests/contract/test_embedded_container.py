"""The embedded engine inside a container: one option is needed, and without it nothing runs.

The container is an ordinary one of Docker's own runtime; what it starts are sandboxes.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNCONFINED = ["--security-opt", "seccomp=unconfined"]
PROGRAM = """
import sys
sys.path.insert(0, "/code")
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner
image = sys.argv[1]
runner = LocalRunner(RunscEngine(image, "/opt/runsc", "/images"), image)
result = runner.run(RunRequest((Step("python", "print(1)"),)))
print(result.outcome, str(result.stdout).strip() or result.message)
runner.close()
"""


@pytest.fixture(scope="module")
def in_container(docker_host, image):
    """in_container(*options): what PROGRAM says in a container with these options."""
    runsc = os.environ.get("RUN_CODE_RUNSC") or shutil.which("runsc")
    images = os.environ.get("RUN_CODE_IMAGES_FOLDER") or "/var/lib/run-code/images"
    mounts = {
        ROOT / "sandbox_core": "/code/sandbox_core",
        Path(runsc).resolve(): "/opt/runsc",
        Path(images): "/images",
    }

    def run(*options):
        command = ["docker", "run", "--rm", "--runtime=runc", "--network=none"]
        for source, target in mounts.items():
            command.append(f"--volume={source}:{target}:ro")
        command += [*options, image, "python3", "-B", "-c", PROGRAM, image]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "DOCKER_HOST": docker_host},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    return run


@pytest.mark.parametrize("user", ["0", "1000"])
def test_the_one_option_is_enough_for_root_and_for_others(in_container, user):
    assert in_container(*UNCONFINED, f"--user={user}") == "ok 1"


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--cap-add=SYS_ADMIN"],
        ["--cap-add=SYS_ADMIN", "--security-opt", "systempaths=unconfined"],
    ],
)
def test_without_it_nothing_runs_and_the_reason_is_told(in_container, options):
    said = in_container(*options)
    assert said.startswith("sandbox_error gVisor ")
    assert "run the doctor" in said
