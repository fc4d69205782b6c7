"""The runner contract for sandboxes from Docker."""

import pytest

from sandbox_core.runner import LocalRunner
from tests.contract.isolation_suite import IsolationContract
from tests.contract.limit_suite import LimitContract
from tests.contract.outcome_suite import OutcomeContract
from tests.contract.output_suite import OutputContract


@pytest.fixture(scope="module")
def docker_runner(docker_engine, image, runtime):
    runner = LocalRunner(docker_engine, image, runtime)
    yield runner
    runner.close()


class _OverDocker:
    @pytest.fixture
    def runner(self, docker_runner):
        return docker_runner


class TestOutcomes(_OverDocker, OutcomeContract):
    pass


class TestOutput(_OverDocker, OutputContract):
    pass


class TestLimits(_OverDocker, LimitContract):
    pass


class TestIsolation(_OverDocker, IsolationContract):
    pass
