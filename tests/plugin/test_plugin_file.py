"""The generated files as commands. (scripts/check compares them with their sources.)"""

import os
import subprocess
import sys

import pytest

from tests.plugin.conftest import ARTIFACTS


def run_file(family, *arguments, stdin="", **environ):
    # Of our variables this one is a setting of the plugins, too; the others are the tests'.
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RUN_CODE_") or name == "RUN_CODE_IMAGE"
    }
    return subprocess.run(
        [sys.executable, "-I", ARTIFACTS[family], *arguments],
        input=stdin,
        env={**ours, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("family", ARTIFACTS)
def test_a_program_on_stdin(family):
    done = run_file(family, stdin="print(6 * 7)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")
    done = run_file(family, "--language", "sh", stdin="echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "err\nThe program failed with exit code 3.\n"


@pytest.mark.parametrize("family", ARTIFACTS)
def test_self_test(family):
    done = run_file(family, "--self-test")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_file(family, "--self-test", RUN_CODE_RUNTIME="runc")
    assert done.returncode == 1
    assert "gVisor" in done.stdout


@pytest.mark.parametrize("family", ARTIFACTS)
@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("RUN_CODE_MEMORY_MB", "lots", "RUN_CODE_MEMORY_MB must be a whole number"),
        ("RUN_CODE_DOCKER_HOST", "unix:///nowhere", "engine cannot be reached"),
    ],
)
def test_what_cannot_run_is_told_in_a_sentence(family, variable, value, sentence):
    done = run_file(family, stdin="print(1)", **{variable: value})
    assert done.returncode == 125
    assert done.stdout == ""
    assert sentence in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("family", ARTIFACTS)
@pytest.mark.parametrize(("arguments", "times"), [((), 1), (("--verbose",), 2)])
def test_h06_a_missing_image_is_told_once(family, arguments, times):
    """And once more with the log."""
    done = run_file(family, *arguments, stdin="print(1)", RUN_CODE_IMAGE="none:1")
    assert done.returncode == 125
    assert done.stderr.count("It is called none:1") == times, done.stderr
