"""The runner contract for warm sandboxes: what the pool and the launcher add to an engine is
the same on all of them."""

import pytest

from sandbox_core.pool import PoolSettings
from tests.contract.display_suite import DisplayContract
from tests.contract.isolation_suite import IsolationContract
from tests.contract.limit_suite import LimitContract
from tests.contract.outcome_suite import OutcomeContract
from tests.contract.output_suite import OutputContract
from tests.contract.runners import opened_warm


@pytest.fixture(scope="module")
def warm_runner(first_engine, image):
    with opened_warm(first_engine, image, PoolSettings().preload) as runner:
        yield runner


@pytest.fixture(scope="module")
def quickly_warm_runner(first_engine, image):
    """Each test waits for a new sandbox: a small module is loaded in a tenth of the time."""
    with opened_warm(first_engine, image, ("decimal",)) as runner:
        yield runner


class _WithLibraries:
    @pytest.fixture
    def runner(self, warm_runner):
        return warm_runner


class _WithOneModule:
    @pytest.fixture
    def runner(self, quickly_warm_runner):
        return quickly_warm_runner


class TestOutcomes(_WithOneModule, OutcomeContract):
    pass


class TestOutput(_WithOneModule, OutputContract):
    pass


class TestDisplays(_WithLibraries, DisplayContract):
    pass


class TestLimits(_WithLibraries, LimitContract):
    pass


class TestIsolation(_WithOneModule, IsolationContract):
    pass
