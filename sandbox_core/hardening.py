"""The one place that decides what a sandbox container may do.

A pure function from limits to the body of Docker's ``POST /containers/create`` (Docker
Engine API 1.41, "ContainerCreate"); a test pins the result. Each option has its reason.
"""

from typing import Any

from sandbox_core.limits import MIB, Limits

__all__ = [
    "GUEST_UID",
    "HOME_FOLDER",
    "RESERVE_MIB",
    "TMPFS_FOLDERS",
    "WORK_FOLDER",
    "container_config",
    "container_memory_bytes",
]

WORK_FOLDER = "/mnt/data"
HOME_FOLDER = "/tmp/home"
TMPFS_FOLDERS = (WORK_FOLDER, "/tmp", "/dev/shm")
GUEST_UID = 1000
RESERVE_MIB = 128

_GUEST_MIB = 64
# Preloaded modules are not the program's memory: numpy, pandas and matplotlib take 100 MB.
WARM_MIB = 160
_PIDS = 4096


def container_memory_bytes(limits: Limits, warm: bool = False) -> int:
    """The container's memory limit: the second wall behind the guest's own watch.

    gVisor keeps tmpfs files in the sandbox's memory, so their sizes are added: filling the
    work folder must not take memory from the program. The reserve is what the guest's watch
    needs to act before the kernel does.
    """
    mib = limits.memory_mib + limits.tmpfs_mib + RESERVE_MIB + _GUEST_MIB
    if warm:
        mib += WARM_MIB
    return mib * MIB


def container_config(
    image: str,
    runtime: str,
    argv: tuple[str, ...],
    limits: Limits,
    labels: dict[str, str],
    warm: bool = False,
) -> dict[str, Any]:
    """The whole configuration of one sandbox container; ``warm``: with preloaded modules."""
    memory = container_memory_bytes(limits, warm)
    return {
        "Image": image,
        # The image's own entry point is not ours to trust: the guest is the first process.
        "Entrypoint": list(argv),
        "Cmd": [],
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": labels,
        # Root of the container only to drop to the program's user, see CapAdd.
        "User": "0:0",
        # The channel is stdin and stdout. StdinOnce: when we die, Docker closes the guest's
        # stdin, and the guest ends.
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": True,
        # An image's health check would start processes in the sandbox.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            # gVisor: system calls of the program never reach the host's kernel.
            "Runtime": runtime,
            "NetworkMode": "none",
            # The container is gone when the guest ends, even if nobody is left to remove it.
            "AutoRemove": True,
            "RestartPolicy": {"Name": "no"},
            "ReadonlyRootfs": True,
            # The guest drops to the program's user and kills its processes; nothing more.
            "CapDrop": ["ALL"],
            "CapAdd": ["SETUID", "SETGID", "KILL"],
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            # The only writable folders; their sizes are the disk quota. Docker's default is
            # noexec, which would refuse to run a compiled program.
            "Tmpfs": {
                WORK_FOLDER: f"rw,exec,nosuid,nodev,mode=1777,size={limits.work_mib}m",
                "/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={limits.tmp_mib}m",
                "/dev/shm": f"rw,exec,nosuid,nodev,mode=1777,size={limits.shm_mib}m",
            },
            # Equal, so that there is no swap.
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": int(limits.cpus * 1e9),
            # The program's own limit is RLIMIT_NPROC. This one counts gVisor's threads on the
            # host: a low one kills the sandbox, none at all lets a fork bomb hang the shim.
            "PidsLimit": max(_PIDS, 8 * limits.processes),
            "Ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {
                    "Name": "nofile",
                    "Soft": limits.open_files + 256,
                    "Hard": limits.open_files + 256,
                },
            ],
            # A log file on the host would grow with the output; the channel is all we read.
            "LogConfig": {"Type": "none", "Config": {}},
        },
    }
