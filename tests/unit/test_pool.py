"""The pool of warm sandboxes: what it hands out, makes, throws away, and survives."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sandbox_core.engines.base import SandboxSpec
from sandbox_core.errors import EngineUnavailable
from sandbox_core.limits import Limits
from sandbox_core.pool import PoolSettings, WarmPool
from tests.fake_engine import SILENCE, FakeEngine, hello

SPEC = SandboxSpec(
    image="image",
    runtime="runsc",
    limits=Limits(),
    run_id="run",
    owner="host/1/2",
    expires_at=0.0,
    argv=("python3",),
)


def wait_for(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(hello(), SILENCE)


@pytest.fixture
def pool(engine: FakeEngine) -> WarmPool:
    pool = WarmPool(engine, PoolSettings(size=2))
    yield pool
    pool.close()


def end_a_run(pool: WarmPool) -> None:
    pool.begin_run()
    pool.end_run()


def filled(pool: WarmPool, spec: SandboxSpec = SPEC, count: int = 2) -> None:
    """Ask once in vain, and wait until the pool has made what was missing."""
    pool.take(spec)
    end_a_run(pool)
    wait_for(lambda: pool.stats().idle == count)


def test_the_first_is_cold_and_the_next_one_warm(pool: WarmPool) -> None:
    assert pool.take(SPEC) is None
    end_a_run(pool)
    wait_for(lambda: pool.stats().idle == 2)
    taken = pool.take(SPEC)
    assert taken is not None
    assert b"gvisor" in taken.hello
    stats = pool.stats()
    assert (stats.hits, stats.misses) == (1, 1)
    taken.channel.close()


def test_each_is_handed_out_once_and_replaced(pool: WarmPool) -> None:
    filled(pool)
    first, second = pool.take(SPEC), pool.take(SPEC)
    assert first is not None
    assert second is not None
    assert first.channel is not second.channel
    assert pool.take(SPEC) is None
    end_a_run(pool)
    wait_for(lambda: pool.stats().idle == 2)
    assert pool.stats().refills == 4


def test_a_size_of_zero_makes_nothing(engine: FakeEngine) -> None:
    pool = WarmPool(engine, PoolSettings(size=0))
    assert pool.take(SPEC) is None
    end_a_run(pool)
    time.sleep(0.1)
    assert engine.channels == []
    pool.close()


def test_limits_that_shape_no_container_share_a_shelf(pool: WarmPool) -> None:
    filled(pool)
    quick = replace(SPEC, limits=Limits(seconds=3, files=1), run_id="other")
    assert pool.take(quick) is not None
    small = replace(SPEC, limits=Limits(memory_mib=64))
    assert pool.take(small) is None


def test_a_dead_one_is_never_handed_out(pool: WarmPool, engine: FakeEngine) -> None:
    filled(pool)
    for channel in engine.channels:
        channel.kill()
    assert pool.take(SPEC) is None
    assert all(channel.closed for channel in engine.channels[:2])


def test_runs_that_can_use_all_processors_leave_none_to_the_pool(
    engine: FakeEngine,
) -> None:
    """More of them get done without."""
    pool = WarmPool(engine, PoolSettings(size=1), processors=2)
    filled(pool, count=1)
    pool.begin_run()
    pool.begin_run()
    assert pool.take(SPEC) is not None
    end_a_run(pool)
    time.sleep(0.3)
    assert pool.stats().idle == 0
    pool.end_run()
    wait_for(lambda: pool.stats().idle == 1)
    pool.close()


def test_a_crowd_that_stays_is_given_a_sandbox_now_and_then(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = WarmPool(engine, PoolSettings(size=1), processors=1)
    pool.begin_run()
    filled(pool, count=1)  # the first one of all
    monkeypatch.setattr("sandbox_core.pool._CROWDED_SECONDS", 0.2)
    assert pool.take(SPEC) is not None
    time.sleep(0.2)
    end_a_run(pool)
    wait_for(lambda: pool.stats().idle == 1)
    pool.close()


def test_the_memory_budget_bounds_all_kinds_together(engine: FakeEngine) -> None:
    """The kind asked for longest ago gives way to the one asked for last."""
    pool = WarmPool(engine, PoolSettings(size=2, memory_budget_mib=3 * 128))
    another = replace(SPEC, image="another")
    filled(pool)
    pool.want(another)
    wait_for(lambda: pool.stats().refills == 4)
    time.sleep(0.1)
    assert pool.stats().idle == 3
    taken = [pool.take(another), pool.take(another), pool.take(SPEC), pool.take(SPEC)]
    assert [sandbox is not None for sandbox in taken] == [True, True, True, False]
    pool.close()


def test_one_can_be_asked_for_ahead(pool: WarmPool) -> None:
    assert not pool.want(SPEC)
    wait_for(lambda: pool.want(SPEC))
    assert pool.stats().hits == pool.stats().misses == 0


def test_closing_throws_all_away_and_takes_no_more(
    pool: WarmPool, engine: FakeEngine
) -> None:
    filled(pool)
    pool.close()
    assert all(channel.closed for channel in engine.channels)
    assert pool.take(SPEC) is None
    assert pool.stats().idle == 0


@pytest.mark.parametrize(
    "error", [EngineUnavailable("The engine is down."), KeyError("not foreseen")]
)
def test_a_failing_engine_is_asked_again_after_a_pause(
    engine: FakeEngine, error: Exception
) -> None:
    engine.start_error = error
    pool = WarmPool(engine, PoolSettings(size=1))
    pool.take(SPEC)
    end_a_run(pool)
    wait_for(lambda: pool.stats().failures == 1)
    end_a_run(pool)
    time.sleep(0.2)
    assert pool.stats().failures == 1  # it pauses first
    engine.start_error = None
    time.sleep(1.0)
    end_a_run(pool)
    wait_for(lambda: pool.stats().idle == 1)
    pool.close()


def test_what_is_not_gvisor_is_not_kept(engine: FakeEngine) -> None:
    engine.script = (hello(gvisor=False), SILENCE)
    pool = WarmPool(engine, PoolSettings(size=1))
    pool.take(SPEC)
    end_a_run(pool)
    wait_for(lambda: pool.stats().failures == 1)
    assert engine.channels[0].closed
    pool.close()


def test_unwanted_sandboxes_go_after_a_while(engine: FakeEngine) -> None:
    pool = WarmPool(engine, PoolSettings(size=1, idle_seconds=0.5))
    filled(pool, count=1)
    time.sleep(0.6)
    end_a_run(pool)  # wakes the pool, which tidies first
    wait_for(lambda: pool.stats().idle == 0)
    assert engine.channels[0].closed
    pool.close()


def test_each_interpreter_has_sandboxes_and_another_is_better_than_none(
    engine: FakeEngine,
) -> None:
    pool = WarmPool(engine, PoolSettings(size=1))
    filled(pool, count=1)
    taken = pool.take(SPEC, "node")
    assert taken is not None
    assert taken.waiting == "python"
    end_a_run(pool)
    wait_for(lambda: pool.stats().idle == 2)
    waiting = [pool.take(SPEC, "node"), pool.take(SPEC, "node")]
    assert [each and each.waiting for each in waiting] == ["node", "python"]
    assert pool.take(replace(SPEC, image="another"), "node") is None
    pool.close()
