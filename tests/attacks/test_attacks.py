"""Each hostile program ends as its header says, and the host and the next run are well.

Header lines of a program: ``# expect:`` the outcomes that are right, ``# limits:``,
``# consumer: asleep`` (whoever watches never wakes up), ``# shows:`` and ``# hides:`` texts
of stdout, ``# files:`` that come back.
"""

import re
import threading
import time
from pathlib import Path

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.leases import current_owner
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner

PROGRAMS = sorted((Path(__file__).parent / "programs").iterdir())
HEADER = re.compile(
    r"^# (expect|limits|consumer|shows|hides|files): (.*)$", re.MULTILINE
)
LANGUAGES = {".py": "python", ".sh": "bash"}
GONE_SECONDS = 5
LATE_SECONDS = 12  # on top of the time limit: start, collection, a busy machine


@pytest.fixture(scope="module")
def runner(engine, image):
    runner = LocalRunner(engine, image)
    yield runner
    runner.close()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_attack(runner, engine, program):
    code = program.read_text("utf-8")
    header = dict(HEADER.findall(code))
    asleep = threading.Event()
    on_event = (lambda event: asleep.wait(60)) if "consumer" in header else None
    request = RunRequest(
        steps=(Step(LANGUAGES[program.suffix], code),), limits=limits_of(header)
    )
    try:
        result = runner.run(request, on_event)
    finally:
        asleep.set()
    check(result, header, request.limits)
    wait_until_gone(engine)
    again = runner.run(RunRequest(steps=(Step("python", "print(1)"),)))
    assert (again.outcome, str(again.stdout)) == (Outcome.OK, "1\n"), again
    wait_until_gone(engine)


def limits_of(header):
    pairs = (pair.split("=") for pair in header.get("limits", "").split())
    return Limits(**{name: int(value) for name, value in pairs})


def check(result, header, limits):
    told = (
        f"{result.outcome} exit={result.exit_code} signal={result.signal} {result.message!r} "
        f"{str(result.stdout)[-300:]!r} {str(result.stderr)[-800:]!r} {result.skipped[:5]} "
        f"{[file.name for file in result.files]} {result.seconds:.1f}/{result.total_seconds:.1f}"
    )
    assert result.outcome in header["expect"].split(), told
    assert bool(result.message) == (result.outcome is not Outcome.OK), told
    assert result.total_seconds < limits.seconds + LATE_SECONDS, told
    assert header.get("shows", "") in str(result.stdout), told
    if "hides" in header:
        assert header["hides"] not in str(result.stdout), told
    made = {file.name for file in result.files}
    assert set(header.get("files", "").split()) <= made, told


def wait_until_gone(engine):
    deadline = Deadline(GONE_SECONDS)
    while any(lease.owner == current_owner() for lease in engine.leftovers()):
        assert not deadline.passed(), "the sandbox is still there"
        time.sleep(0.1)
