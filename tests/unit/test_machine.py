"""What is said of a machine on which gVisor does not run, and the commands that fit it."""

from dataclasses import replace

import pytest

from sandbox_core.engines.machine import (
    Machine,
    machine_obstacles,
    machine_suspects,
    read_machine,
    restart_docker_command,
    runsc_install_command,
    runsc_upgrade_command,
)

USUAL = Machine()


def words(findings):
    assert all(finding.name == "machine" and not finding.ok for finding in findings)
    assert all(finding.mend and finding.why for finding in findings)
    return " ".join(finding.text for finding in findings)


def test_a_usual_machine_has_nothing_to_complain_of():
    assert machine_obstacles(USUAL, rootless=True) == []
    assert machine_suspects(USUAL, embedded=True) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"page_bytes": 65536}, "pages of 64 KB"),
        ({"architecture": "riscv64"}, "riscv64"),
        ({"kernel": "4.4.302-generic"}, "needs 4.14.77 or newer"),
        ({"user_namespaces": 0}, "User namespaces are switched off"),
    ],
)
def test_obstacles(fields, said):
    findings = machine_obstacles(replace(USUAL, **fields), rootless=True)
    assert len(findings) == 1
    assert said in words(findings)


def test_root_needs_no_user_namespaces():
    assert machine_obstacles(replace(USUAL, user_namespaces=0)) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"has_seccomp_filter": True}, "seccomp filter"),
        ({"apparmor_restricts": True}, "AppArmor"),
        ({"selinux_enforces": True}, "SELinux is enforcing"),
        ({"address_bits": 39}, "addresses of 39 bits"),
        ({"kernel": "5.15.90.1-microsoft-standard-WSL2"}, "This is WSL"),
    ],
)
def test_suspects(fields, said):
    findings = machine_suspects(replace(USUAL, **fields), embedded=True)
    assert len(findings) == 1
    assert said in words(findings)


def test_what_only_the_embedded_engine_meets():
    machine = replace(USUAL, has_seccomp_filter=True, apparmor_restricts=True)
    assert machine_suspects(machine, embedded=False) == []


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({}, "sudo apt-get install runsc"),
        ({"system_version": "12"}, "docs/setup.md"),
        ({"system": "ubuntu", "system_version": "24.04"}, "docs/setup.md"),
        ({"system": "", "system_version": ""}, "docs/setup.md"),
        ({"in_container": True}, "mount runsc"),
    ],
)
def test_how_to_get_runsc(fields, command):
    assert command in runsc_install_command(replace(USUAL, **fields))


def test_how_to_get_a_newer_runsc():
    assert "--only-upgrade runsc" in runsc_upgrade_command(USUAL)
    assert "docs/setup.md" in runsc_upgrade_command(replace(USUAL, system="fedora"))


def test_how_to_restart_docker():
    assert restart_docker_command(USUAL) == "sudo systemctl restart docker"
    without = replace(USUAL, has_systemd=False)
    assert restart_docker_command(without) == "sudo service docker restart"
    inside = replace(USUAL, in_container=True)
    assert "on its host" in restart_docker_command(inside)


def test_facts_are_read_from_where_the_kernel_tells_them(tmp_path):
    files = {
        "etc/os-release": 'PRETTY_NAME="X"\nID=debian\nVERSION_ID="12"\n',
        "proc/self/status": "Name:\tpython3\nSeccomp:\t2\nSeccomp_filters:\t1\n",
        "proc/self/maps": "7fffdb000000-7fffdb021000 rw-p 00000000 00:00 0  [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n",
        "proc/sys/user/max_user_namespaces": "0\n",
        "proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
        "sys/fs/selinux/enforce": "1",
        "run/.containerenv": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine = read_machine(tmp_path)
    assert (machine.system, machine.system_version) == ("debian", "12")
    assert (machine.address_bits, machine.user_namespaces) == (47, 0)
    assert machine.has_seccomp_filter
    assert machine.apparmor_restricts
    assert machine.selinux_enforces
    assert machine.in_container
    assert not machine.has_systemd


def test_nothing_that_can_be_read_is_no_complaint(tmp_path):
    machine = read_machine(tmp_path)
    assert machine_obstacles(machine, rootless=True) == []
    assert (machine.address_bits, machine.user_namespaces) == (0, -1)
