"""Runners to put under the runner contract."""

import time
from contextlib import contextmanager

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.pool import PoolSettings
from sandbox_core.runner import LocalRunner

__all__ = ["WarmRunner", "engine_of_built", "opened", "opened_warm"]

READY_SECONDS = 60.0
BUILD_SECONDS = 900


def engine_of_built(docker_host, image):
    """The engine for an image that scripts/test builds beside the other tests."""
    engine = DockerEngine(docker_host, image)
    deadline = Deadline(BUILD_SECONDS)
    while not engine.image_id(Deadline(10)) and not deadline.passed():
        time.sleep(1)
    return engine


@contextmanager
def opened(engine, image):
    """A runner that starts each sandbox cold."""
    runner = LocalRunner(engine, image)
    yield runner
    runner.close()


@contextmanager
def opened_warm(engine, image, preload):
    """A runner whose sandboxes are all warm, with these modules."""
    pool = PoolSettings(size=1, idle_seconds=5.0, preload=preload)
    runner = LocalRunner(engine, image, pool=pool)
    warm = WarmRunner(runner)
    yield warm
    runner.close()
    assert warm.warm > 0


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
