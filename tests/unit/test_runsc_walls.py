"""Limits on the host's side of an embedded sandbox: what is written where, and what is told.

Folders stand in for the kernel's here; the contract suites have the real ones.
"""

import pytest

from sandbox_core.engines.runsc_walls import ControlGroups, HostLimits

LIMITS = HostLimits(memory=1000, threads=50, cpus=1.5)


def make_v1(root, *controllers):
    for name in controllers:
        (root / name).mkdir(parents=True)
        (root / name / "cgroup.procs").touch()
    return ControlGroups(root)


def make_v2(root, available):
    for folder in (root, root / "run-code"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text(available)
        (folder / "cgroup.subtree_control").write_text(available)
    return ControlGroups(root)


def test_v1_has_a_folder_for_each_controller(tmp_path):
    groups = make_v1(tmp_path, "memory", "pids", "cpu", "blkio")
    assert groups.controllers() == {"memory", "pids", "cpu"}
    group = groups.named("one")
    group.set_limits(LIMITS, groups.controllers())
    assert group.cgroup == "/run-code/one"
    written = {
        path.relative_to(tmp_path).as_posix(): path.read_text()
        for path in tmp_path.glob("*/run-code/one/*")
    }
    assert written == {
        "memory/run-code/one/memory.limit_in_bytes": "1000",
        "pids/run-code/one/pids.max": "50",
        "cpu/run-code/one/cpu.cfs_period_us": "100000",
        "cpu/run-code/one/cpu.cfs_quota_us": "150000",
    }


def test_v2_has_one_folder_for_all(tmp_path):
    groups = make_v2(tmp_path, "cpuset cpu memory pids")
    assert groups.controllers() == {"memory", "pids", "cpu"}
    group = groups.named("one")
    (tmp_path / "run-code/one").mkdir()
    (tmp_path / "run-code/one/memory.swap.max").touch()
    group.set_limits(LIMITS, groups.controllers())
    written = {path.name: path.read_text() for path in tmp_path.glob("run-code/one/*")}
    assert written == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "pids.max": "50",
        "cpu.max": "150000 100000",
    }


def test_v2_without_the_memory_controller_is_no_wall_for_memory(tmp_path):
    assert "memory" not in make_v2(tmp_path, "cpu pids").controllers()


def test_no_control_groups_at_all(tmp_path):
    groups = ControlGroups(tmp_path / "nowhere")
    assert groups.controllers() == frozenset()
    groups.named("one").remove()


@pytest.mark.parametrize(
    ("name", "text", "broken"),
    [
        ("memory/run-code/one/memory.oom_control", "under_oom 0\noom_kill 0\n", False),
        ("memory/run-code/one/memory.oom_control", "under_oom 0\noom_kill 2\n", True),
    ],
)
def test_v1_tells_when_memory_ran_out(tmp_path, name, text, broken):
    group = make_v1(tmp_path, "memory").named("one")
    assert not group.broken()
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    assert group.broken() is broken


def test_v2_tells_when_memory_ran_out(tmp_path):
    group = make_v2(tmp_path, "memory").named("one")
    (tmp_path / "run-code/one").mkdir()
    events = tmp_path / "run-code/one/memory.events"
    events.write_text("oom 0\noom_kill 0\n")
    assert not group.broken()
    events.write_text("oom 1\noom_kill 1\n")
    assert group.broken()
