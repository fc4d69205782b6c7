"""gVisor's program on this machine: where it is, and what it may do here."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from sandbox_core.deadline import Deadline
from sandbox_core.engines.runsc_errors import no_runsc

__all__ = [
    "OLDEST_RUNSC",
    "find_runsc",
    "is_privileged",
    "release_of",
]

# Older releases lack --overlay2 and answer EINVAL on a full tmpfs.
OLDEST_RUNSC = 20230801

# runsc's own releases print release-20240729.0, Debian's packages 0.0~20240729.0.
_RELEASE = re.compile(r"(?:release-|0\.0~)(\d{8})")
# capabilities(7): SETGID, SETUID, SYS_CHROOT, SYS_PTRACE and SYS_ADMIN.
_NEEDED_CAPABILITIES = sum(1 << number for number in (6, 7, 18, 19, 21))


def find_runsc(setting: str = "") -> str:
    """Path of the program: the setting, else the one in PATH. Raises RuntimeMissing when it
    is not there or cannot be executed."""
    if setting:
        if os.access(setting, os.X_OK) and os.path.isfile(setting):
            return setting
        raise no_runsc(f"no program at the setting's place: {setting}")
    # A server's PATH may lack the administrator's folders.
    path = os.pathsep.join(
        (os.environ.get("PATH", os.defpath), "/usr/local/bin", "/usr/sbin")
    )
    found = shutil.which("runsc", path=path)
    if found is None:
        raise no_runsc(f"no runsc in {path}")
    return found


def release_of(runsc: str, deadline: Deadline) -> int:
    """The date of its release, as in 20240729; 0 when it does not say. Raises
    RuntimeMissing when it cannot be executed."""
    try:
        done = subprocess.run(
            [runsc, "--version"],
            capture_output=True,
            text=True,
            timeout=max(0.1, deadline.remaining()),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise no_runsc(repr(error)) from error
    found = _RELEASE.search(done.stdout)
    return int(found[1]) if found else 0


def is_privileged() -> bool:
    """Whether we may make namespaces and mounts as we are. If not, runsc has to start with a
    user namespace of its own (--rootless)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    effective = int(found[1], 16) if found else 0
    return effective & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES
