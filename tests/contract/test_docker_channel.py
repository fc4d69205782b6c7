"""The channel contract over Docker, and what only Docker has."""

import time

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, SandboxSpec
from sandbox_core.guest_program import guest_program
from sandbox_core.job import boot_frame
from sandbox_core.leases import current_owner
from sandbox_core.limits import Limits
from sandbox_core.models import new_run_id
from sandbox_core.protocol import bootstrap_argv, encode_program
from sandbox_core.reaper import reap
from tests.contract.channel_suite import ChannelContract, lease_of, read_to_end

HOG = "x = []\nwhile True:\n    x.append(b'x' * 1_000_000)\n"


class TestDockerChannel(ChannelContract):
    @pytest.fixture
    def engine(self, docker_engine):
        return docker_engine

    @pytest.fixture
    def make_spec(self, image, runtime):
        """make_spec(**changes): the description of a new sandbox of this process."""

        def make(**changes):
            values = {
                "image": image,
                "runtime": runtime,
                "limits": Limits(memory_mib=64, work_mib=1, tmp_mib=1, shm_mib=1),
                "run_id": new_run_id(),
                "owner": current_owner(),
                "expires_at": time.time() + 120,
                "argv": tuple(bootstrap_argv()),
            }
            return SandboxSpec(**(values | changes))

        return make

    def test_the_engine_tells_when_memory_ran_out(self, open_channel):
        channel = open_channel(HOG)
        read_to_end(channel)
        channel.kill()
        ended = channel.ended(Deadline(5))
        assert ended.oom is True
        assert ended.exit_code in (1, 137)

    def test_the_guest_ends_with_its_lease(self, engine, make_spec):
        spec = make_spec()
        channel = engine.start(spec, CancelToken(), Deadline(15))
        try:
            boot = encode_program(guest_program()) + boot_frame(spec.limits, 2.0)
            channel.send(boot, Deadline(10))
            began = time.monotonic()
            assert b"gvisor" in read_to_end(channel)
            assert 1.5 < time.monotonic() - began < 15
            channel.kill()
            assert channel.ended(Deadline(5)).exit_code == 75
        finally:
            channel.close()

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
