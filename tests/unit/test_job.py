"""What the guest is told."""

import pytest

from sandbox_core.archive import plan_files
from sandbox_core.guest_wire import literal, take_frame
from sandbox_core.job import boot_frame, compile_budget, job_frames, may_run_warm
from sandbox_core.limits import Limits
from sandbox_core.models import InputFile, RunRequest, Step

MIB = 1 << 20


def frames_of(data):
    buffer = bytearray(data)
    frames = []
    while buffer:
        frames.append(take_frame(buffer))
    return frames


def job_of(request):
    frames = frames_of(b"".join(job_frames(request, plan_files(request), 60.0)))
    kind, payload = frames[-1]
    assert kind == b"G"
    return frames[:-1], literal(payload)


def boot_of(limits):
    ((kind, payload),) = frames_of(boot_frame(limits, 60.5))
    assert kind == b"B"
    return literal(payload)


def test_boot_names_an_unprivileged_user_and_the_limits():
    boot = boot_of(
        Limits(processes=99, open_files=77, work_mib=10, tmp_mib=30, shm_mib=20)
    )
    assert boot["uid"] == boot["gid"] == 1000
    assert (boot["processes"], boot["open_files"]) == (99, 77)
    assert boot["file_size"] == 31 * MIB
    assert boot["lease_seconds"] == 60.5
    assert boot["folders"] == ["/mnt/data", "/tmp", "/dev/shm"]


def test_the_environment_holds_nothing_of_the_host(monkeypatch):
    monkeypatch.setenv("WEBUI_SECRET_KEY", "secret-value")
    env = boot_of(Limits(cpus=1.5))["env"]
    assert "secret-value" not in repr(env)
    assert set(env) == {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "TZ",
        "TERM",
        "PYTHONUNBUFFERED",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
        "MPLBACKEND",
        "MPLCONFIGDIR",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "PIP_RETRIES",
        "PIP_DISABLE_PIP_VERSION_CHECK",
    }
    assert env["OMP_NUM_THREADS"] == "2"


def test_a_sandbox_with_packages_has_a_folder_for_them():
    frame = boot_frame(Limits(), 60.5, has_packages=True)
    ((_, payload),) = frames_of(frame)
    boot = literal(payload)
    assert boot["folders"][-1] == "/packages"
    assert boot["packages"].startswith("/packages/")
    assert boot["env"]["PYTHONUSERBASE"] == "/packages"
    assert boot["env"]["PATH"].startswith("/packages/bin:/usr/local/sbin:")
    assert boot_of(Limits())["packages"] == ""


def test_files_come_before_the_job_in_chunks():
    big = bytes(range(256)) * 10_000
    files = (InputFile("a.bin", big), InputFile("empty", b""))
    frames, job = job_of(RunRequest(steps=(Step("python", "print(1)"),), files=files))
    kinds = b"".join(kind for kind, _ in frames)
    assert kinds == b"FDDDFFDE"
    assert literal(frames[0][1]) == {"name": "a.bin"}
    assert b"".join(payload for kind, payload in frames[1:4]) == big
    assert literal(frames[5][1]) == {"name": "main.py"}
    assert frames[6][1] == b"print(1)"
    assert [step["path"] for step in job["steps"]] == ["/mnt/data/main.py"]


def test_stdin_is_chunked_and_may_be_empty():
    request = RunRequest(steps=(Step("bash", "cat"),), stdin=b"x" * 1_200_000)
    frames, _ = job_of(request)
    assert [len(payload) for kind, payload in frames if kind == b"I"] == [
        1_048_576,
        151_424,
    ]
    frames, _ = job_of(RunRequest(steps=(Step("bash", "cat"),)))
    assert not [kind for kind, _ in frames if kind == b"I"]


def test_limits_reach_the_guest_in_bytes():
    limits = Limits(
        seconds=2.5, memory_mib=100, output_mib=3, files=7, file_mib=5, work_mib=20
    )
    _, job = job_of(RunRequest(steps=(Step("bash", ":"),), limits=limits))
    assert job["seconds"] == 2.5
    assert job["memory_bytes"] == 100 * MIB
    assert job["output_bytes"] == 3 * MIB
    assert (job["files"], job["file_bytes"], job["collected_bytes"]) == (
        7,
        5 * MIB,
        20 * MIB,
    )


@pytest.mark.parametrize(
    ("language", "argv", "launched"),
    [
        ("py", ["python3", "/mnt/data/main.py"], True),
        ("sh", ["bash", "/mnt/data/main.sh"], False),
        ("node", ["node", "/mnt/data/main.js"], False),
        ("rust", ["/tmp/.run-code-build/main"], False),
    ],
)
def test_a_step_is_its_languages_command(language, argv, launched):
    _, job = job_of(RunRequest(steps=(Step(language, "1"),)))
    (step,) = job["steps"]
    assert (step["argv"], step["launched"]) == (argv, launched)
    assert bool(step["compile"]) == (language == "rust")
    assert bool(step["needs"]) == (not launched)


def test_compilers_have_time_of_their_own():
    steps = (Step("c", ""), Step("python", ""), Step("go", ""))
    request = RunRequest(steps, limits=Limits(compile_seconds=7))
    assert compile_budget(request) == 14
    assert job_of(request)[1]["compile_seconds"] == 7


def test_a_first_python_step_may_be_warm_unless_modules_lie_beside_it():
    def may(*names, language="python", code="1"):
        files = tuple(InputFile(name, b"") for name in names)
        request = RunRequest((Step(language, code),), files=files)
        return may_run_warm(request, plan_files(request), "python")

    assert may()
    assert may("sales.csv", "photo.png")
    assert not may("json.py")
    assert not may("numpy/__init__.py")
    assert not may("deep/down/data.csv")
    assert not may("library.so")
    assert not may("matplotlibrc")
    assert not may(language="bash")
    assert not may(code="import os\nif os.fork() == 0: pass")
    assert not may(code="from multiprocessing import Pool")
    assert may(code="fork_knife = 1")


def test_a_waiting_node_is_for_javascript_whatever_lies_beside_it():
    def may(language):
        request = RunRequest((Step(language, "1"),), files=(InputFile("a/b.js", b""),))
        return may_run_warm(request, plan_files(request), "node")

    assert may("javascript")
    assert not may("python")
    assert not may("typescript")
