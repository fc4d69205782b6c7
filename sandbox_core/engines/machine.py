"""What of this machine may keep gVisor from running, in words, and commands that fit it.

The facts are read in one place; what follows from them are pure functions. Sources: gVisor's
page on its requirements; proc(5), os-release(5), kernel documentation of yama and AppArmor.
"""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from sandbox_core.engines.base import Finding

__all__ = [
    "Machine",
    "machine_obstacles",
    "machine_suspects",
    "read_machine",
    "restart_docker_command",
    "runsc_install_command",
    "runsc_upgrade_command",
]

_PAGE_BYTES = 4096
_ARCHITECTURES = ("x86_64", "aarch64")
_OLDEST_KERNEL = (4, 14, 77)
_USUAL_ADDRESS_BITS = 47
_DEBIAN_WITH_RUNSC = 13
_WHY_NOTHING_RUNS = "Without it no sandbox starts, so no code is run."


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the machine, or of the container, in which we are. The defaults are those of
    one on which everything works.

    ``address_bits`` are those of a process; 0 when they cannot be told, as for
    ``user_namespaces``, the most that one user may have: -1.
    """

    architecture: str = "x86_64"
    kernel: str = "6.1.0"
    page_bytes: int = _PAGE_BYTES
    address_bits: int = _USUAL_ADDRESS_BITS
    user_namespaces: int = -1
    system: str = "debian"
    system_version: str = "13"
    has_systemd: bool = True
    in_container: bool = False
    has_seccomp_filter: bool = False
    apparmor_restricts: bool = False
    selinux_enforces: bool = False


def read_machine(root: Path = Path("/")) -> Machine:
    """The facts of this machine. Never raises: what cannot be read is as usual."""
    release = dict(
        re.findall(r'^(\w+)="?([^"\n]*)', _text(root / "etc/os-release"), re.M)
    )
    status = _text(root / "proc/self/status")
    stack = re.search(
        r"^[0-9a-f]+-([0-9a-f]+) .*\[stack\]$", _text(root / "proc/self/maps"), re.M
    )
    sysctl = root / "proc/sys"
    spaces = _text(sysctl / "user/max_user_namespaces").strip()
    restricts = _text(sysctl / "kernel/apparmor_restrict_unprivileged_userns").strip()
    return Machine(
        architecture=platform.machine(),
        kernel=platform.release(),
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        address_bits=int(stack[1], 16).bit_length() if stack else 0,
        user_namespaces=int(spaces) if spaces.isdigit() else -1,
        system=release.get("ID", ""),
        system_version=release.get("VERSION_ID", ""),
        has_systemd=(root / "run/systemd/system").is_dir(),
        in_container=any(
            (root / name).exists() for name in (".dockerenv", "run/.containerenv")
        ),
        has_seccomp_filter=bool(re.search(r"^Seccomp:\s*2$", status, re.M)),
        apparmor_restricts=restricts == "1",
        selinux_enforces=_text(root / "sys/fs/selinux/enforce").strip() == "1",
    )


def machine_obstacles(machine: Machine, rootless: bool = False) -> list[Finding]:
    """What surely keeps gVisor from running here. ``rootless``: it starts as a user who needs
    a user namespace for that."""
    found = []
    if machine.architecture not in _ARCHITECTURES:
        found.append(
            _no(
                f"gVisor does not run on processors of the kind {machine.architecture}.",
                "use a machine with x86-64 or arm64, and set DOCKER_HOST to its engine",
            )
        )
    if machine.page_bytes != _PAGE_BYTES:
        found.append(
            _no(
                f"The kernel has memory pages of {machine.page_bytes // 1024} KB; gVisor "
                "needs 4 KB.",
                "boot a kernel with 4 KB pages (uname -r has often “64k” in its name)",
            )
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", machine.kernel)[:3])
    if numbers and numbers < _OLDEST_KERNEL:
        found.append(
            _no(
                f"The kernel is {machine.kernel}; gVisor needs 4.14.77 or newer.",
                "update the system",
            )
        )
    if rootless and machine.user_namespaces == 0:
        found.append(
            _no(
                "User namespaces are switched off, which gVisor needs for a user who is "
                "not root.",
                "sudo sysctl -w user.max_user_namespaces=10000",
            )
        )
    return found


def machine_suspects(machine: Machine, embedded: bool) -> list[Finding]:
    """What may be the cause when no sandbox starts; ``embedded``: without Docker."""
    found = []
    if embedded and machine.has_seccomp_filter:
        found.append(
            _maybe(
                "A seccomp filter is on this process. Docker's usual one refuses the calls "
                "that gVisor makes namespaces with.",
                "docker run --security-opt seccomp=unconfined …   # Kubernetes: "
                "seccompProfile: {type: Unconfined}",
            )
        )
    if embedded and machine.apparmor_restricts:
        found.append(
            _maybe(
                "AppArmor lets only some programs make user namespaces here.",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            )
        )
    if machine.selinux_enforces:
        found.append(
            _maybe(
                "SELinux is enforcing, and its rules may refuse what gVisor does.",
                "sudo ausearch -m avc -ts recent   # shows what was refused; then: sudo "
                "audit2allow",
            )
        )
    if 0 < machine.address_bits < _USUAL_ADDRESS_BITS:
        found.append(
            _maybe(
                f"A process here has addresses of {machine.address_bits} bits; gVisor "
                f"expects {_USUAL_ADDRESS_BITS} or more.",
                "boot a kernel with 48-bit addresses (CONFIG_ARM64_VA_BITS_48)",
            )
        )
    if "microsoft" in machine.kernel.lower():
        found.append(
            _maybe(
                "This is WSL. Its first version has no Linux kernel, and Docker Desktop's "
                "engine has no gVisor.",
                "wsl --set-version DISTRIBUTION 2   # and install docker.io in it",
            )
        )
    return found


def runsc_install_command(machine: Machine) -> str:
    """What puts gVisor's program onto this machine, or where to read how."""
    major = machine.system_version.partition(".")[0]
    from_debian = machine.system == "debian" and major.isdigit()
    if machine.in_container:
        return (
            "mount runsc into this container, or put it into the image (docs/setup.md)"
        )
    if from_debian and int(major) >= _DEBIAN_WITH_RUNSC:
        return "sudo apt-get install runsc"
    return "install runsc as docs/setup.md says (“gVisor”)"


def runsc_upgrade_command(machine: Machine) -> str:
    """What brings gVisor's newest release onto this machine, or where to read how."""
    if machine.system in ("debian", "ubuntu") and not machine.in_container:
        return "sudo apt-get update && sudo apt-get install --only-upgrade runsc"
    return "install the newest runsc as docs/setup.md says (“gVisor”)"


def restart_docker_command(machine: Machine) -> str:
    """What makes the Docker Engine of this machine read its configuration again."""
    if machine.in_container:
        return "restart Docker on its host"
    return f"sudo {'systemctl restart docker' if machine.has_systemd else 'service docker restart'}"


def _no(text: str, mend: str) -> Finding:
    return Finding("machine", False, text, mend, _WHY_NOTHING_RUNS)


def _maybe(text: str, mend: str) -> Finding:
    return Finding(
        "machine", False, f"{text} This may be the cause.", mend, _WHY_NOTHING_RUNS
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
