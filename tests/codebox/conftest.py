"""Services to call: one for all tests that can share it, and one for each that cannot."""

import signal
import time

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker import DockerEngine
from tests.codebox.service_process import ServiceProcess

GENEROUS = {
    "exec_timeout": 600,
    "max_memory_mb": 1024,
    "max_cpus": 2,
    "max_processes": 2048,
    "max_open_files": 8192,
    "max_work_mb": 1024,
    "max_tmp_mb": 1024,
    "max_shm_mb": 1024,
    "max_kept_output_kb": 2048,
    "max_output_mb": 512,
    "max_files": 5000,
    "max_file_mb": 512,
    "max_upload_mb": 512,
    # Their sandboxes would be left-overs to the tests that count them.
    "warm_sandboxes": 0,
    "max_concurrent": 4,
    "max_concurrent_per_user": 4,
    "rate_limit_rps": 1000,
    "rate_limit_burst": 10000,
    "bad_tokens_per_minute": 10000,
}
GONE_SECONDS = 60.0


@pytest.fixture(scope="session")
def log_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("codebox")


@pytest.fixture(scope="session")
def service(log_folder):
    """A service with generous limits, shared by all tests."""
    process = ServiceProcess(log_folder, **GENEROUS)
    yield process
    assert process.stop() == -signal.SIGTERM, process.log()


@pytest.fixture
def start_service(log_folder):
    """Starts services with settings of their own, and ends them."""
    started = []

    def start(**settings):
        started.append(ServiceProcess(log_folder, **{**GENEROUS, **settings}))
        return started[-1]

    yield start
    for process in started:
        if process.process.poll() is None:
            process.stop()


@pytest.fixture
def leases_of():
    """The sandboxes that a service process holds at this moment."""
    engine = DockerEngine()

    def leases(process):
        pid = str(process.process.pid)
        return [
            lease for lease in engine.leftovers() if lease.owner.split("/")[1] == pid
        ]

    return leases


@pytest.fixture
def wait_until():
    """Waits for a condition; fails when it does not come."""

    def wait(condition, seconds=GONE_SECONDS):
        deadline = Deadline(seconds)
        while not condition():
            assert not deadline.passed(), "it did not happen in time"
            time.sleep(0.1)

    return wait
