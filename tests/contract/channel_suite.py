"""The channel contract: what a byte channel to a fresh sandbox must do, on any engine.

A subclass per engine gives the fixtures ``engine`` and ``spec_values`` (image and runtime).
The guest here is a few lines that the bootstrap reads, so that only the channel is tested.
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import CancelToken, SandboxSpec
from sandbox_core.errors import ChannelClosed, StartFailed
from sandbox_core.guest_program import guest_program
from sandbox_core.job import boot_frame
from sandbox_core.leases import current_owner
from sandbox_core.limits import Limits
from sandbox_core.models import new_run_id
from sandbox_core.protocol import bootstrap_argv, encode_program

ECHO = """
import os
while data := os.read(0, 65536):
    while data:
        data = data[os.write(1, data):]
"""
FLOOD = "import os\nwhile True:\n    os.write(1, b'x' * 65536)\n"
DEAF = "import time\ntime.sleep(60)\n"
CROWD = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        time.sleep(60)
os.write(1, b"ready")
time.sleep(60)
"""
READY = "import os\nos.write(1, b'ready')\n"
HOG = "x = []\nwhile True:\n    x.append(b'x' * 1_000_000)\n"


class ChannelContract:
    """Inherit and give the fixtures."""

    @pytest.fixture
    def make_spec(self, spec_values):
        """make_spec(**changes): the description of a new sandbox of this process."""

        def make(**changes):
            values = {
                **spec_values,
                "limits": Limits(memory_mib=64, work_mib=1, tmp_mib=1, shm_mib=1),
                "run_id": new_run_id(),
                "owner": current_owner(),
                "expires_at": time.time() + 120,
                "argv": tuple(bootstrap_argv()),
            }
            return SandboxSpec(**(values | changes))

        return make

    @pytest.fixture
    def open_channel(self, engine, make_spec):
        """open_channel(program) starts a sandbox that runs it; all are closed at the end."""
        channels = []

        def open_one(program):
            channel = engine.start(make_spec(), CancelToken(), Deadline(15))
            channels.append(channel)
            channel.send(encode_program(program), Deadline(10))
            return channel

        yield open_one
        for channel in channels:
            channel.close()

    def test_bytes_go_both_ways_and_a_half_close_ends_the_guest(self, open_channel):
        channel = open_channel(ECHO)
        data = bytes(range(256)) * 4096
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(channel.send, data, Deadline(20))
            assert read(channel, len(data)) == data
            sending.result(5)
        channel.close_send()
        assert read_to_end(channel) == b""
        assert channel.ended(Deadline(5)).oom is False

    def test_recv_waits_no_longer_than_asked(self, open_channel):
        channel = open_channel(READY + DEAF)
        assert read(channel, 5) == b"ready"
        began = time.monotonic()
        assert channel.recv(0.3) is None
        assert 0.2 < time.monotonic() - began < 2

    def test_recv_gives_bounded_pieces(self, open_channel):
        channel = open_channel(FLOOD)
        deadline, total = Deadline(20), 0
        while total < 20 << 20 and not deadline.passed():
            data = channel.recv(10)
            assert len(data) <= 1 << 18
            total += len(data)
        assert total >= 20 << 20

    def test_a_kill_from_another_thread_wakes_recv(self, open_channel):
        channel = open_channel(READY + DEAF)
        assert read(channel, 5) == b"ready"
        with ThreadPoolExecutor(1) as pool:
            receiving = pool.submit(channel.recv, 60)
            time.sleep(0.2)
            began = time.monotonic()
            killing = threading.Thread(target=channel.kill)
            killing.start()
            assert receiving.result(5) == b""
            assert time.monotonic() - began < 2
            killing.join(15)
        assert channel.recv(5) == b""
        with pytest.raises(ChannelClosed):
            channel.send(b"x", Deadline(5))

    def test_a_kill_from_another_thread_wakes_send(self, open_channel):
        channel = open_channel(READY + DEAF)
        assert read(channel, 5) == b"ready"
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(channel.send, b"x" * (64 << 20), Deadline(60))
            time.sleep(0.3)
            assert not sending.done()
            assert not channel.kill().may_linger
            with pytest.raises(ChannelClosed):
                sending.result(5)

    def test_killed_twice_at_once_and_again(self, engine, open_channel):
        channel = open_channel(READY + DEAF)
        assert read(channel, 5) == b"ready"
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(lambda _: channel.kill(), range(2)))
        assert not any(report.may_linger for report in [*reports, channel.kill()])
        assert channel.ended(Deadline(5)).oom in (False, None)

    def test_an_unread_flood_does_not_hinder_a_kill(self, open_channel):
        channel = open_channel(FLOOD)
        time.sleep(1)
        began = time.monotonic()
        assert not channel.kill().may_linger
        assert time.monotonic() - began < 10

    def test_a_crowd_of_processes_does_not_hinder_a_kill(self, open_channel):
        for _ in range(2):
            channel = open_channel(CROWD)
            assert read(channel, 5) == b"ready"
            began = time.monotonic()
            assert not channel.kill().may_linger
            assert time.monotonic() - began < 10

    def test_a_guest_that_is_gone_takes_nothing(self, open_channel):
        channel = open_channel("import os\nos._exit(7)\n")
        assert read_to_end(channel) == b""
        with pytest.raises(ChannelClosed):
            send_until_refused(channel)
        channel.kill()
        assert channel.ended(Deadline(5)).exit_code == 7

    def test_a_guest_that_does_not_read_meets_the_deadline(self, open_channel):
        channel = open_channel(DEAF)
        began = time.monotonic()
        with pytest.raises(StartFailed):
            channel.send(b"x" * (64 << 20), Deadline(1))
        assert time.monotonic() - began < 5

    def test_diagnostics_are_kept_and_bounded(self, open_channel):
        channel = open_channel("import os\nos.write(2, b'oops' + b'!' * 100_000)\n")
        assert read_to_end(channel) == b""
        told = channel.ended(Deadline(5)).untrusted_diagnostics
        assert told.startswith("oops!")
        assert len(told) <= 4096

    def test_close_leaves_no_descriptor(self, engine, make_spec):
        counts = []
        for _ in range(3):
            channel = engine.start(make_spec(), CancelToken(), Deadline(15))
            channel.close()
            channel.close()
            counts.append(len(os.listdir("/proc/self/fd")))
        assert counts[0] == counts[2]

    def test_a_cancelled_start_leaves_nothing(self, engine, make_spec):
        cancel, spec = CancelToken(), make_spec()
        cancel.cancel()
        with pytest.raises(ChannelClosed):
            engine.start(spec, cancel, Deadline(15))
        assert lease_of(engine, spec) is None

    def test_a_sandbox_is_listed_with_its_lease_until_it_is_removed(
        self, engine, make_spec
    ):
        spec = make_spec()
        channel = engine.start(spec, CancelToken(), Deadline(15))
        try:
            lease = lease_of(engine, spec)
            assert lease.owner == spec.owner
            assert lease.expires_at == int(spec.expires_at)
            engine.remove(lease)
            engine.remove(lease)
            assert lease_of(engine, spec) is None
            assert channel.recv(10) == b""
        finally:
            channel.close()

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


def read(channel, size):
    """Exactly ``size`` bytes, or AssertionError after 20 s."""
    data, deadline = bytearray(), Deadline(20)
    while len(data) < size:
        assert not deadline.passed(), f"only {len(data)} of {size} bytes came"
        piece = channel.recv(1)
        assert piece != b"", f"the stream ended after {len(data)} of {size} bytes"
        data += piece or b""
    return bytes(data)


def read_to_end(channel):
    """All bytes until the end of the stream, or AssertionError after 20 s."""
    data, deadline = bytearray(), Deadline(20)
    while (piece := channel.recv(1)) != b"":
        assert not deadline.passed(), "the stream did not end"
        data += piece or b""
    return bytes(data)


def send_until_refused(channel):
    """A dead end may take some bytes before it says so."""
    for _ in range(50):
        channel.send(b"x" * 65536, Deadline(5))
        time.sleep(0.05)


def lease_of(engine, spec):
    """The lease of one sandbox; None when it is not there."""
    found = [lease for lease in engine.leftovers() if lease.run_id == spec.run_id]
    return found[0] if found else None
