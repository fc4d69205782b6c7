"""The embedded engine for an ordinary user, and over a copy of this machine's own Python."""

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_core.engines.host_root import make_host_root
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.engines.runsc_images import write_image
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner
from tests.contract.runs import describe, run

ROOT = Path(__file__).resolve().parents[2]
ORDINARY_USER = 12345
LOOK = """
import json, os, sqlite3, ssl
print(sorted(os.listdir("/")), "PLANTED_SECRET" in os.environ)
"""
AS_ORDINARY_USER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.runner import LocalRunner
image, runsc, images, state = sys.argv[2:]
engine = RunscEngine(image, runsc, images, state)
runner = LocalRunner(engine, image)
for code in (
    "import os; print(os.getuid())",
    "x = []\\nwhile True: x.append(b'x' * 10_000_000)",
    "import os\\nwhile True: os.fork()",
    "open('/mnt/data/f', 'wb').write(b'x' * 20_000_000)",
):
    limits = Limits(memory_mib=256, processes=32, work_mib=8)
    result = runner.run(RunRequest((Step("python", code),), limits=limits))
    print(result.outcome, *str(result.stdout).split())
runner.close()
print(len(engine.leftovers()), engine.limits_in_force().partition(",")[0])
"""


@pytest.fixture(scope="module")
def runsc_path():
    return os.environ.get("RUN_CODE_RUNSC", "") or shutil.which("runsc")


@pytest.fixture(scope="module")
def host_image(tmp_path_factory):
    """(folder of images, secret): a copy made while secrets lay everywhere about it."""
    secret = secrets.token_hex().encode()
    folder = tmp_path_factory.mktemp("images")
    (folder / "host-copy/rootfs").mkdir(parents=True)
    site = next(path for path in sys.path if path.endswith("site-packages"))
    places = [
        *(Path(site), Path(os.__file__).parent, Path(sys.base_prefix), Path("/etc")),
        *(Path("/opt"), Path("/usr/local/lib"), Path("/var/tmp"), Path.home()),
    ]
    planted = [place / "planted-secret.txt" for place in places if place.is_dir()]
    for path in planted:
        path.write_bytes(secret)
    os.environ["PLANTED_SECRET"] = secret.decode()
    try:
        make_host_root(folder / "host-copy/rootfs")
    finally:
        for path in planted:
            path.unlink()
    write_image(folder / "host-copy", ("PATH=/usr/local/bin:/usr/bin:/bin",))
    yield folder, secret
    del os.environ["PLANTED_SECRET"]


def test_of_this_machine_a_copied_root_shows_code_and_no_secret(
    host_image, runsc_path, embedded_engine
):
    images, secret = host_image
    runner = LocalRunner(RunscEngine("host-copy", runsc_path, str(images)), "host-copy")
    try:
        looked = run(runner, LOOK)
        shell = run(runner, "echo $((6 * 7)) | cat", "bash")
    finally:
        runner.close()
    assert looked.outcome is Outcome.OK, describe(looked)
    assert "'etc'" in str(looked.stdout)
    assert str(looked.stdout).endswith("] False\n")
    assert str(shell.stdout) == "42\n", describe(shell)
    root = images / "host-copy/rootfs"
    files = [path for path in root.rglob("*") if path.is_file()]
    assert len(files) > 500
    told = [path for path in files if "planted" in path.name or holds(path, secret)]
    assert told == []
    # The accounts are made up: nobody of this machine is in them.
    assert sorted(os.listdir(root / "etc")) == [
        *("group", "hostname", "hosts", "nsswitch.conf", "passwd", "resolv.conf")
    ]


def test_scripts_rootfs_copies_the_python_of_a_virtual_environment_and_unpacks_a_tar(
    embedded_engine, runsc_path, tmp_path
):
    made = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")]
    subprocess.run(made, check=True, timeout=60)
    images = tmp_path / "images"
    settings = {
        "RUN_CODE_IMAGES_FOLDER": str(images),
        "PYTHON": str(tmp_path / "venv/bin/python"),
    }
    copied = rootfs(settings, "host")
    archive = tmp_path / "root.tar.gz"
    packed = ["tar", "-czf", str(archive), "-C", str(copied / "rootfs"), "."]
    subprocess.run(packed, check=True, timeout=120)
    shutil.rmtree(copied)
    assert rootfs(settings, "tar", str(archive), "mine:1") == images / "mine_1"
    runner = LocalRunner(RunscEngine("mine:1", runsc_path, str(images)), "mine:1")
    try:
        result = run(runner, "import json, sys; print(json.dumps(sys.prefix))")
    finally:
        runner.close()
    assert result.outcome is Outcome.OK, describe(result)
    assert str(result.stdout) == f'"{sys.base_prefix}"\n'


def rootfs(settings, *arguments):
    """The folder of the image that scripts/rootfs made."""
    done = subprocess.run(
        [str(ROOT / "scripts/rootfs"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])


def test_an_ordinary_user_needs_nothing_but_runsc(
    embedded_engine, image, runsc_path, tmp_path
):
    """No root, no control group, no Docker: the limits hold all the same."""
    shared = Path(f"/tmp/run-code-user-{os.getpid()}")
    shared.mkdir(mode=0o755)
    try:
        shutil.copytree(ROOT / "sandbox_core", shared / "code/sandbox_core")
        state = shared / "state"
        state.mkdir(mode=0o700)
        os.chown(state, ORDINARY_USER, ORDINARY_USER)
        images = os.environ.get("RUN_CODE_IMAGES_FOLDER") or "/var/lib/run-code/images"
        user = [f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}"]
        done = subprocess.run(
            [
                "setpriv",
                *user,
                "--clear-groups",
                ordinary_python(),
                "-B",
                "-c",
                AS_ORDINARY_USER,
                str(shared / "code"),
                image,
                runsc_path,
                images,
                str(state),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            env={"PATH": os.defpath, "HOME": str(shared)},
            cwd="/",
        )
    finally:
        shutil.rmtree(shared)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ok 1000",
        "memory_limit",
        "process_limit",
        "disk_limit",
        "0 Around the sandbox stand",
    ]


def holds(path, secret):
    return secret in path.read_bytes()


def ordinary_python():
    """A Python that every user may run: the one of a version switcher is often private."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        done = subprocess.run(
            [
                "setpriv",
                f"--reuid={ORDINARY_USER}",
                "--clear-groups",
                path,
                "-c",
                "import sys; sys.exit(sys.version_info < (3, 11))",
            ],
            capture_output=True,
        )
        if done.returncode == 0:
            return path
    pytest.fail("There is no Python 3.11 or later here that an ordinary user may run.")
