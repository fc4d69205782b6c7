"""The runner contract for sandboxes of every engine: cold ones, and warm ones of the pool."""

import time
from contextlib import contextmanager

import pytest

from sandbox_core.pool import PoolSettings
from sandbox_core.runner import LocalRunner
from tests.contract.display_suite import DisplayContract
from tests.contract.isolation_suite import IsolationContract
from tests.contract.limit_suite import LimitContract
from tests.contract.outcome_suite import OutcomeContract
from tests.contract.output_suite import OutputContract

READY_SECONDS = 60.0


@contextmanager
def opened(runner):
    yield runner
    runner.close()


@pytest.fixture(scope="module")
def cold_runner(engine, image):
    with opened(LocalRunner(engine, image)) as runner:
        yield runner


@pytest.fixture(scope="module")
def first_cold_runner(first_engine, image):
    with opened(LocalRunner(first_engine, image)) as runner:
        yield runner


class WarmRunner:
    """A runner that never starts cold if it can help it: it waits for the pool first.

    ``warm`` counts the runs that had a warm sandbox, so that a suite cannot pass without.
    """

    def __init__(self, runner):
        self._runner = runner
        self.warm = 0

    def run(self, request, on_event=None, cancel=None):
        end = time.monotonic() + READY_SECONDS
        while not self._runner.prepare(request) and time.monotonic() < end:
            if cancel is not None and cancel.is_set():
                break
            time.sleep(0.02)
        result = self._runner.run(request, on_event, cancel)
        self.warm += result.evidence.get("warm") == "yes"
        return result


@contextmanager
def opened_warm(engine, image):
    pool = PoolSettings(size=1, idle_seconds=5.0)
    with opened(LocalRunner(engine, image, pool=pool)) as runner:
        warm = WarmRunner(runner)
        yield warm
    assert warm.warm > 0


@pytest.fixture(scope="module")
def warm_runner(engine, image):
    with opened_warm(engine, image) as runner:
        yield runner


@pytest.fixture(scope="module")
def first_warm_runner(first_engine, image):
    with opened_warm(first_engine, image) as runner:
        yield runner


class _Cold:
    @pytest.fixture
    def runner(self, cold_runner):
        return cold_runner


class _Warm:
    @pytest.fixture
    def runner(self, warm_runner):
        return warm_runner


# Output and displays are the guest's and the launcher's work, which no engine changes.
class _FirstCold:
    @pytest.fixture
    def runner(self, first_cold_runner):
        return first_cold_runner


class _FirstWarm:
    @pytest.fixture
    def runner(self, first_warm_runner):
        return first_warm_runner


class TestOutcomes(_Cold, OutcomeContract):
    pass


class TestOutput(_FirstCold, OutputContract):
    pass


class TestDisplays(_FirstCold, DisplayContract):
    pass


class TestLimits(_Cold, LimitContract):
    pass


class TestIsolation(_Cold, IsolationContract):
    pass


class TestWarmOutcomes(_FirstWarm, OutcomeContract):
    pass


class TestWarmOutput(_FirstWarm, OutputContract):
    pass


class TestWarmDisplays(_FirstWarm, DisplayContract):
    pass


class TestWarmLimits(_Warm, LimitContract):
    pass


class TestWarmIsolation(_FirstWarm, IsolationContract):
    pass
