"""Who is provably dead, and who is not."""

import os
import subprocess
import sys

import pytest

from sandbox_core import leases
from sandbox_core.leases import Lease, current_owner, is_dead

NOW = 1_000_000.0


def lease_of(owner, expires_at=NOW + 60):
    return Lease("id", "run", owner, expires_at)


def owner_with(machine=None, pid=None, start=None):
    own = current_owner().split("/")
    return "/".join(
        str(new or old) for new, old in zip((machine, pid, start), own, strict=True)
    )


def test_a_living_owner_keeps_its_sandbox():
    assert not is_dead(lease_of(current_owner()), NOW)


def test_an_ended_owner_does_not():
    code = "from sandbox_core.leases import current_owner; print(current_owner())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split("/")[0] == current_owner().split("/")[0]
    assert is_dead(lease_of(done.stdout.strip()), NOW)


def test_a_later_process_with_the_same_pid_is_another_owner():
    assert is_dead(lease_of(owner_with(start=1)), NOW)


def test_an_owner_elsewhere_is_alive_until_the_lease_ends():
    elsewhere = owner_with(machine="other", pid=2**22, start=1)
    assert not is_dead(lease_of(elsewhere), NOW)
    assert not is_dead(lease_of(elsewhere, NOW - 20), NOW)
    assert is_dead(lease_of(elsewhere, NOW - 31), NOW)


def test_a_container_with_our_host_name_is_elsewhere(monkeypatch):
    ours = owner_with(pid=2**22, start=1)
    assert is_dead(lease_of(ours), NOW)
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[4026539999]")
    assert not is_dead(lease_of(ours), NOW)


def test_without_proc_only_the_lease_counts(monkeypatch):
    def no_such_file(*_):
        raise FileNotFoundError

    monkeypatch.setattr(os, "readlink", no_such_file)
    monkeypatch.setattr(leases.Path, "read_text", no_such_file)
    assert not is_dead(lease_of(current_owner()), NOW)
    assert is_dead(lease_of(current_owner(), NOW - 31), NOW)


# Each pytest worker has an owner of its own, but the tests must have one name in all.
@pytest.mark.parametrize(
    "owner",
    ["", "x", "a/b/c", "//", owner_with(pid="-1")],
    ids=["empty", "word", "words", "slashes", "no process"],
)
def test_a_strange_label_is_dead_only_when_expired(owner):
    assert not is_dead(lease_of(owner), NOW)
    assert is_dead(lease_of(owner, 0.0), NOW)


def test_the_label_says_nothing_about_a_person():
    machine, pid, start = current_owner().split("/")
    assert pid == str(os.getpid())
    assert start.isdigit()
    assert os.environ.get("USER", "nobody-in-particular") not in machine
