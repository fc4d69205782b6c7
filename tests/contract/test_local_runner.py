"""The runner contract for cold sandboxes of every engine."""

import threading

import pytest

from sandbox_core.outcome import Outcome
from tests.contract.display_suite import DisplayContract
from tests.contract.isolation_suite import IsolationContract
from tests.contract.limit_suite import MIB, LimitContract
from tests.contract.outcome_suite import OutcomeContract
from tests.contract.output_suite import OutputContract
from tests.contract.runners import opened
from tests.contract.runs import describe, run


@pytest.fixture(scope="module")
def cold_runner(engine, image):
    with opened(engine, image) as runner:
        yield runner


@pytest.fixture(scope="module")
def first_cold_runner(first_engine, image):
    with opened(first_engine, image) as runner:
        yield runner


class _OnEach:
    @pytest.fixture
    def runner(self, cold_runner):
        return cold_runner


# Output and displays are the guest's and the launcher's work, which no engine changes.
class _OnFirst:
    @pytest.fixture
    def runner(self, first_cold_runner):
        return first_cold_runner


class TestOutcomes(_OnEach, OutcomeContract):
    pass


class TestOutput(_OnFirst, OutputContract):
    pass


class TestDisplays(_OnFirst, DisplayContract):
    pass


class TestLimits(_OnEach, LimitContract):
    pass


class TestIsolation(_OnEach, IsolationContract):
    pass


def test_reading_much_of_the_image_is_not_using_memory(cold_runner):
    much = 200 * MIB
    code = (
        f"find /usr -type f -print0 | xargs -0 cat 2>/dev/null | head -c {much} | wc -c"
    )
    little = {"memory_mib": 32, "work_mib": 1, "tmp_mib": 1, "shm_mib": 1}
    result = run(cold_runner, code, "bash", **little)
    assert result.outcome is Outcome.OK, describe(result)
    assert str(result.stdout) == f"{much}\n"


def test_time_and_hard_output_cap_by_default(first_cold_runner):
    """Two runs that take long, side by side: 30 s, and 64 MiB of output."""
    results = {}

    def start(name, code):
        thread = threading.Thread(
            target=lambda: results.update({name: run(first_cold_runner, code)}),
            name=name,
        )
        thread.start()
        return thread

    sleep = start("sleep", "import time\nprint('asleep')\ntime.sleep(60)")
    flood = start("flood", "print('first')\nwhile True: print('x' * 10_000)")
    flood.join(60)
    flooded = results["flood"]
    assert flooded.outcome is Outcome.OUTPUT_LIMIT, describe(flooded)
    assert str(flooded.stdout).startswith("first\n")
    told = len(flooded.stdout.head) + len(flooded.stdout.tail) + flooded.stdout.omitted
    assert told == 64 * MIB
    sleep.join(60)
    slept = results["sleep"]
    assert slept.outcome is Outcome.TIMEOUT, describe(slept)
    assert str(slept.stdout) == "asleep\n"
    assert 30 <= slept.seconds < 33
