"""The corpus in real gVisor, in the sandbox image: one container for each way."""

import functools
import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.launcher import runner
from tests.launcher.programs import (
    LAUNCHER_TEXTS,
    LIBRARIES,
    LIBRARY_PROGRAMS,
    LIBRARY_SAMPLE,
    PROGRAMS,
    STANDARD_MODULES,
    compare,
    ways_of,
)
from tests.launcher.runner import COLD, PLAIN, WARM

IMAGE = os.environ.get("RUN_CODE_IMAGE", "run-code-python:latest")
# The way of a sandbox that waits with the libraries loaded.
WARM_LIBRARIES = "warm with libraries"
PRELOADS = {WARM: STANDARD_MODULES, WARM_LIBRARIES: LIBRARIES}
ALL_PROGRAMS = {**PROGRAMS, **LIBRARY_PROGRAMS}
LONGEST_SECONDS = 300
OPTIONS = [
    "--rm",
    "--interactive",
    "--runtime=runsc",
    "--network=none",
    "--read-only",
    "--tmpfs=/tmp:exec,mode=1777",
    "--user=1000:1000",
    "--entrypoint=python3",
]


def ways_in_sandbox(name: str) -> list[str]:
    """The ways in which this program runs here, beside the plain one."""
    if name in LIBRARY_PROGRAMS:
        return [COLD, WARM_LIBRARIES]
    return ways_of(name) + [WARM_LIBRARIES] * (name in LIBRARY_SAMPLE)


@functools.cache
def results(way: str) -> dict[str, dict]:
    """What every program does in this way, by name; "version" is the sandbox's Python."""
    names = [
        name for name in ALL_PROGRAMS if way == PLAIN or way in ways_in_sandbox(name)
    ]
    request = {
        "python": "/usr/bin/python3",
        **LAUNCHER_TEXTS,
        "way": WARM if way in PRELOADS else way,
        "preload": PRELOADS.get(way, []),
        "folder": "/tmp/run",
        "font_cache": "/usr/local/share/run-code/matplotlib",
        "programs": [ALL_PROGRAMS[name] for name in names],
    }
    return dict(zip(names, run_in_sandbox(request), strict=True))


def run_in_sandbox(request: dict) -> list[dict]:
    """The runner's answer from a container of its own, which is gone afterwards."""
    container = f"run-code-launcher-{uuid.uuid4().hex[:12]}"
    program = Path(runner.__file__).read_text("utf-8")
    command = ["docker", "run", f"--name={container}", *OPTIONS, IMAGE, "-c", program]
    try:
        answer = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        subprocess.run(["docker", "kill", container], timeout=60)
        raise
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize("way", [COLD, WARM, WARM_LIBRARIES])
def test_every_program_ran(way: str) -> None:
    assert results(way).keys() <= results(PLAIN).keys()


@pytest.mark.parametrize("name", ALL_PROGRAMS)
def test_same_as_plain_python(name: str) -> None:
    plain = results(PLAIN)[name]
    for way in ways_in_sandbox(name):
        compare(name, (3, 11), plain, results(way)[name])
