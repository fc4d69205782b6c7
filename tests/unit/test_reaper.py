"""The reaper's decisions; the contract tests show it at work on an engine."""

import threading
import time

import pytest

from sandbox_core.errors import EngineError, EngineUnavailable
from sandbox_core.leases import Lease, current_owner
from sandbox_core.reaper import Reaper, reap

NOW = 1_000_000.0


class ListingEngine:
    """Lists leases; ``stuck`` ones cannot be removed."""

    name = "listing"

    def __init__(self, *leases, stuck=(), error=None):
        self.leases = list(leases)
        self.stuck = stuck
        self.error = error
        self.passes = threading.Semaphore(0)

    def leftovers(self):
        self.passes.release()
        if self.error is not None:
            raise self.error
        return list(self.leases)

    def remove(self, lease):
        if lease.run_id in self.stuck:
            raise EngineError("A left-over sandbox could not be removed.")
        self.leases.remove(lease)


def lease_of(run_id, owner="elsewhere/1/1", expires_at=NOW - 100):
    return Lease(run_id, run_id, owner, expires_at)


ALIVE = lease_of("alive", current_owner(), NOW + 100)


def test_only_what_is_provably_dead_goes():
    dead = lease_of("dead")
    engine = ListingEngine(ALIVE, dead)
    assert reap(engine, NOW) == [dead]
    assert engine.leases == [ALIVE]


def test_one_that_is_stuck_does_not_keep_the_others():
    engine = ListingEngine(lease_of("stuck"), lease_of("dead"), stuck=("stuck",))
    with pytest.raises(EngineError):
        reap(engine, NOW)
    assert [lease.run_id for lease in engine.leases] == ["stuck"]


def test_the_first_pass_is_at_once_and_more_follow():
    engine = ListingEngine(lease_of("dead"))
    reaper = Reaper(engine, interval_seconds=0.02)
    reaper.start()
    for _ in range(3):
        assert engine.passes.acquire(timeout=5)
    reaper.stop()
    assert engine.leases == []
    time.sleep(0.2)
    passes = engine.passes
    while passes.acquire(blocking=False):
        pass
    assert not passes.acquire(timeout=0.2), "no pass after stop()"


@pytest.mark.parametrize(
    "error", [EngineUnavailable("The engine is down."), KeyError("bug")]
)
def test_a_problem_is_told_once_and_outlived(error, caplog):
    engine = ListingEngine(error=error)
    reaper = Reaper(engine, interval_seconds=0.01)
    reaper.start()
    for _ in range(5):
        assert engine.passes.acquire(timeout=5)
    reaper.stop()
    told = [
        record for record in caplog.records if "cannot be removed" in record.message
    ]
    assert len(told) == 1
