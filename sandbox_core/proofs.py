"""Programs that try to break a limit, each with how to tell whether it was stopped.

Every one ends by itself after a while, so that a host on which a limit does not bite is told
so, and not harmed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from sandbox_core.errors import InvalidRequest
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome

__all__ = ["PROOFS", "PROOF_NAMES", "Proof", "accepted_names", "host_file_proof"]

PROOF_WORK_MIB = 8
_SURVIVED = "print('survived')\n"


@dataclass(frozen=True, slots=True)
class Proof:
    """``holds`` judges the result of ``code``, which runs with ``limits`` lower than usual.
    ``mend`` is what an administrator can do about a host on which it does not hold; empty: a
    newer gVisor."""

    name: str
    title: str
    why: str
    code: str
    limits: dict[str, float]
    holds: Callable[[RunResult], bool]
    mend: str = ""


def _ends_as(*outcomes: Outcome) -> Callable[[RunResult], bool]:
    return lambda result: result.outcome in outcomes


def _says(text: str) -> Callable[[RunResult], bool]:
    return lambda result: str(result.stdout).strip() == text


_LOOP = f"""\
import time
end = time.monotonic() + 4
while time.monotonic() < end:
    pass
{_SURVIVED}"""
_HOG = f"""\
chunks = []
for _ in range(60):
    chunks.append(b"x" * 10_000_000)
{_SURVIVED}"""
_FORKS = f"""\
import os, time
for _ in range(150):
    if os.fork() == 0:
        time.sleep(3)
        os._exit(0)
{_SURVIVED}"""
# Beside the three there is what the host's kernel, an engine or an image may have mounted.
_DISK = f"""\
told = []
folders = ("/mnt/data", "/tmp", "/dev/shm")
for folder in folders:
    try:
        with open(folder + "/filled", "wb", buffering=0) as file:
            for _ in range({8 * PROOF_WORK_MIB}):
                file.write(b"x" * 1_048_576)
        told.append("room")
    except OSError as error:
        told.append("full" if error.errno == 28 else str(error))
places = {{line.split()[4] for line in open("/proc/self/mountinfo")}} | {{"/var/tmp", "/opt"}}
for place in sorted(places - {{*folders}}):
    try:
        open(place + "/filled", "wb").close()
        told.append("also " + place)
    except OSError:
        pass
print(*told)
"""
_FLOOD = f"""\
for _ in range(400):
    print("x" * 10_000)
{_SURVIVED}"""
_NETWORK = """\
import socket
names = [name for _, name in socket.if_nameindex() if name != "lo"]
told = " ".join(["interfaces:", *names]) if names else "closed"
for kind, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    try:
        # Choosing a route sends nothing.
        socket.socket(kind, socket.SOCK_DGRAM).connect((address, 9))
        told = "a route to " + address
    except OSError:
        pass
print(told)
"""
_READ = """\
found = []
for path in ({path!r}, "/proc/1/root" + {path!r}, "/proc/self/root" + {path!r}):
    try:
        found.append(open(path).read())
    except OSError:
        pass
print("seen" if found else "hidden")
try:
    print(open("/etc/hosts").read())
except OSError:
    pass
"""
# What every engine writes into a sandbox's /etc/hosts.
_USUAL_HOSTS = re.compile(r"localhost|ip6-|sandbox$|broadcasthost$")

PROOFS = (
    Proof(
        "time-limit",
        "An endless loop is stopped",
        "Otherwise one program holds a processor for ever.",
        _LOOP,
        {"seconds": 1},
        _ends_as(Outcome.TIMEOUT),
    ),
    Proof(
        "memory-limit",
        "A program that takes all memory is stopped",
        "Otherwise one program brings down everything on this host.",
        _HOG,
        {"memory_mib": 64},
        _ends_as(Outcome.MEMORY_LIMIT),
    ),
    Proof(
        "process-limit",
        "A fork bomb is stopped",
        "Otherwise one program makes the host too busy for anything else.",
        _FORKS,
        {"processes": 32},
        _ends_as(Outcome.PROCESS_LIMIT),
    ),
    Proof(
        "disk-limit",
        "The writable folders end at their sizes, and there are no others",
        "Otherwise one program fills the host's memory or disk.",
        _DISK,
        {
            "work_mib": PROOF_WORK_MIB,
            "tmp_mib": PROOF_WORK_MIB,
            "shm_mib": PROOF_WORK_MIB,
        },
        _says("full full full"),
        "use an image without VOLUME, made for sandboxes (docs/setup.md, “The sandbox image”)",
    ),
    Proof(
        "output-limit",
        "A flood of output is cut",
        "Otherwise one program fills the chat, and the server's memory.",
        _FLOOD,
        {"output_mib": 1},
        _ends_as(Outcome.OUTPUT_LIMIT),
    ),
    Proof(
        "no-network",
        "There is no network",
        "Otherwise programs reach your internal services, or send data away.",
        _NETWORK,
        {},
        _says("closed"),
        "give the runtime the argument --network=none in /etc/docker/daemon.json, then: sudo "
        "systemctl restart docker",
    ),
)


def host_file_proof(path: str, hosts: str) -> Proof:
    """That a program cannot read the file at ``path`` of this machine, and is told none of
    the names in ``hosts``, which is what its /etc/hosts holds."""
    names = _names_in(hosts)

    def holds(result: RunResult) -> bool:
        said, _, theirs = str(result.stdout).partition("\n")
        return said == "hidden" and not names & _names_in(theirs)

    return Proof(
        "no-host-files",
        "Files of this machine cannot be read",
        "Otherwise programs read your secrets.",
        _READ.format(path=path),
        {},
        holds,
        "use an image that was made for sandboxes (docs/setup.md, “The sandbox image”); where "
        "names of /etc/hosts are seen, give Podman a containers.conf as in docs/setup.md",
    )


def _names_in(hosts: str) -> set[str]:
    """The host names in a file as hosts(5) describes it, without the usual ones."""
    lines = (line.partition("#")[0].split() for line in hosts.splitlines())
    names = {name.lower() for line in lines for name in line[1:]}
    return {name for name in names if not _USUAL_HOSTS.match(name)}


PROOF_NAMES = (
    *(proof.name for proof in PROOFS),
    "no-host-files",
    "nothing-left",
)


def accepted_names(text: str) -> tuple[str, ...]:
    """The names in a setting, with commas between them. Raises InvalidRequest for one that no
    proof has: an administrator accepts exactly what is meant."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in PROOF_NAMES:
            known = ", ".join(PROOF_NAMES)
            raise InvalidRequest(
                f"There is no proof “{name[:40]}”: use any of {known}."
            )
    return names
