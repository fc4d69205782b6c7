"""What a container may do, word for word: a change here is a change of the isolation."""

from sandbox_core.data_folders import DataFolder
from sandbox_core.hardening import (
    bundle_config,
    container_config,
    container_memory_bytes,
    runsc_flags,
)
from sandbox_core.limits import Limits

MIB = 1 << 20


def test_the_whole_configuration():
    config = container_config(
        "image:1", "runsc", ("python3", "-c", "x"), Limits(), {"run-code.run": "r"}
    )
    memory = (512 + 128 + 64 + 64 + 128 + 64) * MIB
    assert config == {
        "Image": "image:1",
        "Entrypoint": ["python3", "-c", "x"],
        "Cmd": [],
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": {"run-code.run": "r"},
        "User": "0:0",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "Runtime": "runsc",
            "NetworkMode": "none",
            "AutoRemove": True,
            "RestartPolicy": {"Name": "no"},
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "CapAdd": ["SETUID", "SETGID", "KILL"],
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            "Tmpfs": {
                "/mnt/data": "rw,exec,nosuid,nodev,mode=1777,size=128m",
                "/tmp": "rw,exec,nosuid,nodev,mode=1777,size=64m",
                "/dev/shm": "rw,exec,nosuid,nodev,mode=1777,size=64m",
            },
            "Mounts": [],
            "Memory": memory,
            "MemorySwap": memory,
            "CpuPeriod": 100_000,
            "CpuQuota": 110_000,
            "PidsLimit": 4096,
            "Ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {"Name": "nofile", "Soft": 1280, "Hard": 1280},
            ],
            "LogConfig": {"Type": "none", "Config": {}},
        },
    }


def test_limits_reach_the_container():
    limits = Limits(
        cpus=0.5, processes=1000, open_files=64, work_mib=10, tmp_mib=20, shm_mib=30
    )
    host = container_config("i", "r", ("x",), limits, {})["HostConfig"]
    assert host["CpuQuota"] == 55_000
    assert host["PidsLimit"] == 8000
    assert host["Ulimits"][1]["Hard"] == 320
    sizes = [options.rpartition("=")[2] for options in host["Tmpfs"].values()]
    assert sizes == ["10m", "20m", "30m"]


def test_folders_do_not_take_memory_from_the_program():
    small = Limits(work_mib=1, tmp_mib=1, shm_mib=1)
    large = Limits(work_mib=101, tmp_mib=51, shm_mib=31)
    added = container_memory_bytes(large) - container_memory_bytes(small)
    assert added == 180 * MIB
    assert container_memory_bytes(small) >= (512 + 3 + 96) * MIB


def test_the_whole_bundle():
    """The same isolation as the container's: a difference here is one in the product."""
    capabilities = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"]

    def tmpfs(folder, size):
        options = ["rw", "exec", "nosuid", "nodev", "mode=1777", f"size={size}m"]
        return {
            "destination": folder,
            "type": "tmpfs",
            "source": "tmpfs",
            "options": options,
        }

    config = bundle_config("/root", ("python3",), ("A=b",), Limits(), "/run-code/1")
    assert config == {
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": "/root", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": ["python3"],
            "env": ["A=b"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {
                "bounding": capabilities,
                "effective": capabilities,
                "permitted": capabilities,
            },
            "rlimits": [
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
                {"type": "RLIMIT_NOFILE", "soft": 1280, "hard": 1280},
            ],
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
            tmpfs("/mnt/data", 128),
            tmpfs("/tmp", 64),
            tmpfs("/dev/shm", 64),
        ],
        "linux": {
            "namespaces": [
                {"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")
            ],
            "cgroupsPath": "/run-code/1",
        },
    }
    without = bundle_config("/root", ("python3",), ("A=b",), Limits())
    assert "cgroupsPath" not in without["linux"]


def test_the_options_of_runsc():
    always = (
        "--platform=systrap",
        "--network=none",
        "--host-uds=none",
        "--host-fifo=none",
        "--overlay2=none",
        "--directfs=false",
    )
    assert runsc_flags("systrap", rootless=False, cgroup=True) == always
    assert runsc_flags("systrap", rootless=True, cgroup=False) == (
        *always,
        "--rootless",
        "--ignore-cgroups",
    )


def test_data_folders_are_shown_and_no_more():
    folder = DataFolder("sales", "/srv/sales")
    bundle = bundle_config("/r", ("x",), (), Limits(), data_folders=(folder,))
    assert bundle["mounts"][-1] == {
        "destination": "/data/sales",
        "type": "bind",
        "source": "/srv/sales",
        "options": ["rbind", "rprivate", "ro", "nosuid", "nodev"],
    }
    config = container_config("i", "r", ("x",), Limits(), {}, data_folders=(folder,))
    assert config["HostConfig"]["Mounts"] == [
        {
            "Type": "bind",
            "Source": "/srv/sales",
            "Target": "/data/sales",
            "ReadOnly": True,
            "BindOptions": {"Propagation": "rprivate"},
        }
    ]
