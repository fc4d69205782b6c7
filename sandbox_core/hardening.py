"""The one place that decides what a sandbox container may do.

Pure functions from limits to the body of Docker's ``POST /containers/create`` (Docker Engine
API 1.41, "ContainerCreate") and to an OCI bundle; tests pin the results. Each option has its
reason.
"""

from typing import Any

from sandbox_core.data_folders import DataFolder
from sandbox_core.limits import MIB, Limits

__all__ = [
    "CPU_PERIOD_US",
    "GUEST_UID",
    "HOME_FOLDER",
    "PACKAGES_FOLDER",
    "RESERVE_MIB",
    "TMPFS_FOLDERS",
    "WORK_FOLDER",
    "bundle_config",
    "container_config",
    "container_cpus",
    "container_memory_bytes",
    "cpu_quota_us",
    "host_threads",
    "runsc_flags",
]

WORK_FOLDER = "/mnt/data"
HOME_FOLDER = "/tmp/home"
PACKAGES_FOLDER = "/packages"
TMPFS_FOLDERS = (WORK_FOLDER, "/tmp", "/dev/shm")
GUEST_UID = 1000
CPU_PERIOD_US = 100_000
RESERVE_MIB = 128

_GUEST_MIB = 64
# Preloaded modules are not the program's memory: numpy, pandas and matplotlib take 100 MB.
WARM_MIB = 160
_PIDS = 4096
# The guest drops to the program's user and kills its processes; nothing more.
_CAPABILITIES = ("SETUID", "SETGID", "KILL")
_GUEST_FILES = 256


def container_memory_bytes(
    limits: Limits, warm: bool = False, packages_mib: int = 0
) -> int:
    """The container's memory limit: the second wall behind the guest's own watch.

    gVisor keeps tmpfs files in the sandbox's memory, so their sizes are added: filling the
    work folder must not take memory from the program. The reserve is what the guest's watch
    needs to act before the kernel does.
    """
    mib = limits.memory_mib + limits.tmpfs_mib + RESERVE_MIB + _GUEST_MIB + packages_mib
    if warm:
        mib += WARM_MIB
    return mib * MIB


def container_cpus(limits: Limits) -> float:
    """The container's share of processors: a tenth more than the program's, because gVisor's
    own threads count too. Without it, a program that calculates loses up to a fifth.
    """
    return limits.cpus * 1.1


def cpu_quota_us(cpus: float) -> int:
    """What of each CPU_PERIOD_US so many processors are; the kernel takes no less than 1 ms."""
    return max(1000, round(cpus * CPU_PERIOD_US))


def host_threads(limits: Limits) -> int:
    """How many threads a sandbox may have on the host.

    The program's own limit is RLIMIT_NPROC. This one counts gVisor's threads: a low one kills
    the sandbox, none at all lets a fork bomb hang Docker's shim.
    """
    return max(_PIDS, 8 * limits.processes)


def container_config(
    image: str,
    runtime: str,
    argv: tuple[str, ...],
    limits: Limits,
    labels: dict[str, str],
    warm: bool = False,
    data_folders: tuple[DataFolder, ...] = (),
    network: str = "",
    packages_mib: int = 0,
) -> dict[str, Any]:
    """The whole configuration of one sandbox container; ``warm``: with an interpreter that waits.
    ``network`` and ``packages_mib`` are as in SandboxSpec."""
    memory = container_memory_bytes(limits, warm, packages_mib)
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
        "NetworkDisabled": not network,
        # An image's health check would start processes in the sandbox.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            # gVisor: system calls of the program never reach the host's kernel.
            "Runtime": runtime,
            # Only what installs packages has one: an internal network with the index on it.
            "NetworkMode": network or "none",
            # The container is gone when the guest ends, even if nobody is left to remove it.
            "AutoRemove": True,
            "RestartPolicy": {"Name": "no"},
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "CapAdd": list(_CAPABILITIES),
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            "Tmpfs": _tmpfs_options(limits, packages_mib),
            "Mounts": [_data_mount(folder) for folder in data_folders],
            # Equal, so that there is no swap.
            "Memory": memory,
            "MemorySwap": memory,
            # Not NanoCpus: Docker refuses more of them than the host has.
            "CpuPeriod": CPU_PERIOD_US,
            "CpuQuota": cpu_quota_us(container_cpus(limits)),
            "PidsLimit": host_threads(limits),
            "Ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {
                    "Name": "nofile",
                    "Soft": limits.open_files + _GUEST_FILES,
                    "Hard": limits.open_files + _GUEST_FILES,
                },
            ],
            # A log file on the host would grow with the output; the channel is all we read.
            "LogConfig": {"Type": "none", "Config": {}},
        },
    }


def bundle_config(
    root: str,
    argv: tuple[str, ...],
    env: tuple[str, ...],
    limits: Limits,
    cgroup: str = "",
    data_folders: tuple[DataFolder, ...] = (),
    packages_mib: int = 0,
) -> dict[str, Any]:
    """The same sandbox as an OCI bundle's config.json (OCI runtime specification 1.0,
    "config.md"), for a runsc without Docker. ``root`` is the folder of the image's files and
    ``env`` its environment; ``cgroup`` is the path of a control group that has the limits of
    the host's side already, or empty."""
    capabilities = [f"CAP_{name}" for name in _CAPABILITIES]
    config: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": root, "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "env": list(env),
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {
                kind: capabilities for kind in ("bounding", "effective", "permitted")
            },
            "rlimits": [
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
                {
                    "type": "RLIMIT_NOFILE",
                    "soft": limits.open_files + _GUEST_FILES,
                    "hard": limits.open_files + _GUEST_FILES,
                },
            ],
        },
        # gVisor makes these three itself; nothing of them is the host's.
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
            *(
                {
                    "destination": folder,
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": options.split(","),
                }
                for folder, options in _tmpfs_options(limits, packages_mib).items()
            ),
            *(
                {
                    "destination": folder.target,
                    "type": "bind",
                    "source": folder.path,
                    "options": ["rbind", "rprivate", "ro", "nosuid", "nodev"],
                }
                for folder in data_folders
            ),
        ],
        "linux": {
            "namespaces": [
                {"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")
            ],
        },
    }
    if cgroup:
        config["linux"]["cgroupsPath"] = cgroup
    return config


def runsc_flags(platform: str, rootless: bool, cgroup: bool) -> tuple[str, ...]:
    """The options of a runsc that runs such a bundle, each with its reason."""
    return (
        f"--platform={platform}",
        # No network but a loopback of its own, and no socket or pipe of the host.
        "--network=none",
        "--host-uds=none",
        "--host-fifo=none",
        # The root is read-only and its folders are tmpfs: no file of the host is written.
        "--overlay2=none",
        # The sandbox runs as nobody, in an empty root and a user namespace of its own, and
        # asks a second process for each file of its image.
        "--directfs=false",
        *(("--rootless",) if rootless else ()),
        *(() if cgroup else ("--ignore-cgroups",)),
    )


def _tmpfs_options(limits: Limits, packages_mib: int) -> dict[str, str]:
    """The only writable folders; their sizes are the disk quota. Docker's default is noexec,
    which would refuse to run a compiled program."""
    sizes = dict(
        zip(
            TMPFS_FOLDERS,
            (limits.work_mib, limits.tmp_mib, limits.shm_mib),
            strict=True,
        )
    )
    if packages_mib:
        sizes[PACKAGES_FOLDER] = packages_mib
    return {
        folder: f"rw,exec,nosuid,nodev,mode=1777,size={size}m"
        for folder, size in sizes.items()
    }


def _data_mount(folder: DataFolder) -> dict[str, Any]:
    """A folder that an administrator shows, with all that is mounted in it: never created, and
    never written. gVisor opens neither devices nor sockets of the host."""
    return {
        "Type": "bind",
        "Source": folder.path,
        "Target": folder.target,
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate"},
    }
