"""The channel contract over Docker's API, and what only the engines that have it do."""

import time

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.leases import current_owner
from sandbox_core.reaper import reap
from tests.contract.channel_suite import ChannelContract, lease_of


class TestDockerChannel(ChannelContract):
    @pytest.fixture
    def engine(self, api_engine):
        return api_engine

    @pytest.fixture
    def spec_values(self, image, api_engine):
        return {"image": image, "runtime": api_engine._runtime}

    def test_the_reaper_takes_what_is_dead_and_nothing_else(self, engine, make_spec):
        machine = current_owner().split("/")[0]
        dead = make_spec(owner=f"{machine}/4194304/1")
        expired = make_spec(owner="elsewhere/1/1", expires_at=time.time() - 60)
        living = make_spec()
        foreign = make_spec(owner="elsewhere/1/1")
        specs = (dead, expired, living, foreign)
        # Made and never started, as when their maker was killed between the two calls.
        made = [engine._create(spec, Deadline(10)) for spec in specs]
        try:
            removed = {lease.run_id for lease in reap(engine, time.time())}
            assert {dead.run_id, expired.run_id} <= removed
            assert not {living.run_id, foreign.run_id} & removed
            assert lease_of(engine, dead) is None
            assert lease_of(engine, living) is not None
        finally:
            for lease in engine.leftovers():
                if lease.sandbox_id in made:
                    engine.remove(lease)
