"""The embedded engine inside a container: one option is needed, and without it nothing runs.

The container is an ordinary one of Docker's own runtime; what it starts are sandboxes.
"""

import os
import shutil
import subprocess
import sys
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

# Of the Python that runs it a copy is made while secrets lie about; then they are searched for.
SEARCH = """
import os, sqlite3, ssl, sys
secret, seen, found = sys.stdin.read(), 0, "PLANTED_SECRET" in os.environ
for folder, folders, names in os.walk("/"):
    if folder in ("/proc", "/sys"):
        folders.clear()
        continue
    for path in (os.path.join(folder, name) for name in names):
        if os.path.isfile(path) and os.access(path, os.R_OK):
            seen += 1
            found = found or secret.encode() in open(path, "rb").read()
print(seen > 500, found, sys.prefix)
"""
COPIES_ITS_PYTHON = """
import os, secrets, sys
sys.path.insert(0, "/code")
secret = os.environ["PLANTED_SECRET"] = secrets.token_hex()
site = next(path for path in sys.path if path.endswith("site-packages"))
for place in (sys.prefix, site, os.environ["HOME"], "/tmp"):
    with open(place + "/planted-secret.txt", "w") as file:
        file.write(secret)
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner
runner = LocalRunner(RunscEngine("host", "/opt/runsc", "/copies"), "host")
request = RunRequest((Step("python", sys.argv[1]),), stdin=secret.encode())
result = runner.run(request)
print(result.outcome, str(result.stdout).strip() or result.message)
runner.close()
"""
VENV = """
set -e
chmod 755 /root
{drop} {python} -m venv --without-pip /tmp/venv
exec {drop} env HOME=/tmp /tmp/venv/bin/python -B -c "$0" "$1"
"""
DROP = "setpriv --reuid=1000 --regid=1000 --clear-groups"


@pytest.fixture(scope="module")
def in_container(docker_host, image):
    """in_container(*options): what PROGRAM, or another command, says in a container with these
    options."""
    runsc = os.environ.get("RUN_CODE_RUNSC") or shutil.which("runsc")
    images = os.environ.get("RUN_CODE_IMAGES_FOLDER") or "/var/lib/run-code/images"
    mounts = {
        ROOT / "sandbox_core": "/code/sandbox_core",
        Path(runsc).resolve(): "/opt/runsc",
        Path(images): "/images",
    }

    def run(*options, command=("python3", "-B", "-c", PROGRAM, image)):
        docker = ["docker", "run", "--rm", "--runtime=runc", "--network=none"]
        for source, target in mounts.items():
            docker.append(f"--volume={source}:{target}:ro")
        done = subprocess.run(
            [*docker, *options, image, *command],
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


@pytest.mark.parametrize("drop", ["", DROP])
def test_a_virtual_environment_is_copied_without_secrets(in_container, drop):
    """Over the Python of these tests, if that is one of a version switcher, else over that of
    the container."""
    prefix, options = "/usr", ["--tmpfs=/copies:exec,mode=1777", "--tmpfs=/root"]
    if not sys.base_prefix.startswith("/usr"):
        prefix = sys.base_prefix
        options.append(f"--volume={prefix}:{prefix}:ro")
    script = VENV.format(drop=drop, python=f"{prefix}/bin/python3")
    command = ("sh", "-c", script, COPIES_ITS_PYTHON, SEARCH)
    said = in_container(*UNCONFINED, *options, command=command)
    assert said == f"ok True False {prefix}"


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
