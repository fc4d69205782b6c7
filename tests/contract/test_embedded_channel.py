"""The channel contract over a runsc of this machine, and what only that engine has."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken
from sandbox_core.leases import current_owner
from sandbox_core.reaper import reap
from tests.contract.channel_suite import ChannelContract, lease_of, read

READY = "import os, time\nos.write(1, b'ready')\ntime.sleep(60)\n"
# Starts a sandbox and is killed while it runs, at the worst moment: nobody closes anything.
HOST_PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tests.conftest import open_engine
from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, SandboxSpec
from sandbox_core.leases import current_owner
from sandbox_core.limits import Limits
engine = open_engine(sys.argv[2], sys.argv[3])
spec = SandboxSpec(sys.argv[3], "runsc", Limits(), sys.argv[4], current_owner(),
                   time.time() + 120, ("sleep", "60"))
channel = engine.start(spec, CancelToken(), Deadline(15))
time.sleep(0.5)
print("up", flush=True)
time.sleep(60)
"""
ROOT = Path(__file__).resolve().parents[2]


class TestEmbeddedChannel(ChannelContract):
    @pytest.fixture
    def engine(self, embedded_engine):
        return embedded_engine

    @pytest.fixture
    def spec_values(self, image):
        return {"image": image, "runtime": "runsc"}

    def test_the_reaper_takes_what_is_dead_and_nothing_else(self, engine, make_spec):
        machine = current_owner().split("/")[0]
        dead = make_spec(owner=f"{machine}/4194304/1")
        expired = make_spec(owner="elsewhere/1/1", expires_at=time.time() - 60)
        living = make_spec()
        foreign = make_spec(owner="elsewhere/1/1")
        channels = [
            engine.start(spec, CancelToken(), Deadline(15))
            for spec in (dead, expired, living, foreign)
        ]
        try:
            removed = {lease.run_id for lease in reap(engine, time.time())}
            assert {dead.run_id, expired.run_id} <= removed
            assert not {living.run_id, foreign.run_id} & removed
            assert lease_of(engine, dead) is None
            assert lease_of(engine, living) is not None
            assert channels[0].recv(5) == b""
            assert channels[2].recv(0.1) is None
        finally:
            for channel in channels:
                channel.close()

    def test_a_killed_owner_leaves_what_the_reaper_removes(
        self, engine, make_spec, image, request
    ):
        """A guest that does not look at its stdin: the lease is all that there is."""
        name = request.node.callspec.params["embedded_engine"]
        run_id = make_spec().run_id
        owner = subprocess.Popen(
            [sys.executable, "-c", HOST_PROGRAM, str(ROOT), name, image, run_id],
            stdout=subprocess.PIPE,
            text=True,
        )
        with owner:
            assert owner.stdout.readline() == "up\n"
            owner.kill()
        left = [lease for lease in engine.leftovers() if lease.run_id == run_id]
        assert len(left) == 1
        assert processes_named(left[0].sandbox_id)
        assert run_id in {lease.run_id for lease in reap(engine, time.time())}
        assert processes_named(left[0].sandbox_id) == []
        assert control_groups_named(left[0].sandbox_id) == []

    def test_nothing_of_a_sandbox_stays(self, engine, make_spec):
        channel = engine.start(make_spec(), CancelToken(), Deadline(15))
        (lease,) = [x for x in engine.leftovers() if x.owner == current_owner()]
        assert processes_named(lease.sandbox_id)
        channel.close()
        assert processes_named(lease.sandbox_id) == []
        assert control_groups_named(lease.sandbox_id) == []
        assert not [x for x in engine.leftovers() if x.owner == current_owner()]

    def test_the_sandbox_is_nobody_and_has_no_way_to_the_host(
        self, engine, open_channel
    ):
        channel = open_channel(READY)
        assert read(channel, 5) == b"ready"
        state = next((channel._folder / "root").glob("*.state"))
        pid = json.loads(state.read_text())["sandbox"]["pid"]
        status = dict(
            line.split(":\t", 1)
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if ":\t" in line
        )
        assert set(status["Uid"].split()) == {"65534"}
        assert int(status["CapEff"], 16) & ~(1 << 19) == 0  # SYS_PTRACE of its own
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        for kind in ("net", "mnt", "ipc", "uts", "user"):
            theirs = os.readlink(f"/proc/{pid}/ns/{kind}")
            assert theirs != os.readlink(f"/proc/self/ns/{kind}"), kind
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        assert os.environ["PATH"].encode() not in environment


def processes_named(sandbox_id):
    """Command lines that name a sandbox."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if sandbox_id.encode() in line and b"runsc" in line:
            found.append(line)
    return found


def control_groups_named(sandbox_id):
    return list(Path("/sys/fs/cgroup").glob(f"**/{sandbox_id}"))
