"""The runner contract: each limit bites, by its default and by its setting, on any runner."""

import errno

import pytest

from sandbox_core.limits import Limits
from sandbox_core.outcome import Outcome
from tests.contract.runs import contents, describe, run, run_steps

MIB = 1 << 20
HOLD = """
import time
open("kept.txt", "w").write("kept")
print("before")
held = []
for i in range({mib}):
    held.append(b"x" * (1 << 20))
    if i > {mib} - 40:
        time.sleep(0.01)
time.sleep({seconds})  # the watch looks every 0.1 s, and later on a busy machine
print("held", len(held))
"""
FILL = """
import os
filled = {}
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    with open(folder + "/fill.bin", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            filled[folder] = (os.path.getsize(folder + "/fill.bin"), error.errno)
print(filled)
"""
FORKS = """
import os, signal, time
children = []
try:
    while True:
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
        children.append(child)
except OSError as error:
    print(len(children), error.errno)
    time.sleep(0.3)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
THREADS = """
import threading, time
stop, made = threading.Event(), 0
try:
    while True:
        threading.Thread(target=stop.wait, daemon=True).start()
        made += 1
except RuntimeError as error:
    print(made, error)
    time.sleep(0.3)
"""
DESCRIPTORS = """
import os
made = []
try:
    while True:
        made.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(len(made), error.errno)
"""


class LimitContract:
    """Inherit and give the fixture ``runner``."""

    def test_hard_output_cap_by_setting(self, runner):
        code = "open('f', 'w').write('f')\nwhile True: print('x' * 10_000)"
        result = run(runner, code, output_mib=1)
        assert result.outcome is Outcome.OUTPUT_LIMIT, describe(result)
        assert "1 MB" in result.message
        assert contents(result) == {"f": b"f"}

    def test_a_cap_that_is_passed_in_the_last_moment_is_told(self, runner):
        code = f"import os\nos.write(1, b'x' * ({MIB} + 30_000))"
        assert run(runner, code, output_mib=1).outcome is Outcome.OUTPUT_LIMIT

    # --- memory ----------------------------------------------------------------------------

    @pytest.mark.parametrize("memory", [512, 128])
    def test_the_program_has_its_whole_memory_while_the_folders_are_full(
        self, runner, memory
    ):
        limits = {} if memory == Limits().memory_mib else {"memory_mib": memory}
        hold = HOLD.format(mib=memory - 24, seconds=0.2)
        result = run_steps(runner, [("python", FILL), ("python", hold)], **limits)
        assert result.outcome is Outcome.OK, describe(result)
        assert f"held {memory - 24}" in str(result.stdout)
        assert "full" in result.notes[0]

    @pytest.mark.parametrize("memory", [512, 128])
    def test_r17_and_no_more_while_they_are_empty(self, runner, memory):
        limits = {} if memory == Limits().memory_mib else {"memory_mib": memory}
        result = run(runner, HOLD.format(mib=memory + 8, seconds=10), **limits)
        assert result.outcome is Outcome.MEMORY_LIMIT, describe(result)
        assert str(result.stdout) == "before\n"
        assert contents(result) == {"kept.txt": b"kept"}
        assert f"{memory} MB" in result.message

    def test_stdin_and_output_in_flight_are_not_the_programs_memory(self, runner):
        code = (
            HOLD.format(mib=96, seconds=0.2)
            + "\nimport sys\nprint(len(sys.stdin.buffer.read(1000)))"
        )
        result = run(runner, code, memory_mib=128, stdin=b"x" * (16 * MIB))
        assert result.outcome is Outcome.OK, describe(result)

    # --- folders ---------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("limits", "sizes"),
        [
            ({}, (128, 64, 64)),
            ({"work_mib": 3, "tmp_mib": 5, "shm_mib": 2}, (3, 5, 2)),
        ],
        ids=["default", "setting"],
    )
    def test_r31_folders_have_their_sizes(self, runner, limits, sizes):
        result = run(runner, FILL, **limits)
        assert result.outcome is Outcome.OK, describe(result)
        filled = eval(str(result.stdout))
        for (folder, (size, code)), mib in zip(filled.items(), sizes, strict=True):
            assert code == errno.ENOSPC
            # The program itself and links lie in the folders too.
            assert mib * MIB - 65536 <= size <= mib * MIB, (folder, size)
        assert "full" in result.notes[0]

    def test_a_full_folder_can_be_the_end_of_a_program(self, runner):
        code = "f = open('big', 'wb')\nwhile True: f.write(b'x' * 65536)"
        result = run(runner, code, work_mib=2)
        assert result.outcome is Outcome.DISK_LIMIT, describe(result)
        assert "disk limit" in result.message

    def test_programs_run_from_each_folder(self, runner):
        code = (
            "for d in /mnt/data /tmp /dev/shm $HOME; do cp /bin/echo $d/own && $d/own $d; done;"
            " printf '#!/bin/sh\\necho script' > s; chmod +x s; ./s"
        )
        result = run(runner, code, "bash")
        lines = ["/mnt/data", "/tmp", "/dev/shm", "/tmp/home", "script"]
        assert str(result.stdout).splitlines() == lines, describe(result)

    def test_nothing_else_can_be_written(self, runner):
        code = (
            "for f in / /etc /usr/local/lib /var/tmp /root /dev /proc /sys /opt; do "
            "touch $f/x 2>/dev/null && echo wrote $f; done; true"
        )
        result = run(runner, code, "bash")
        assert (result.outcome, str(result.stdout)) == (Outcome.OK, ""), describe(
            result
        )

    # --- processes, threads, descriptors ---------------------------------------------------

    @pytest.mark.parametrize("code", [FORKS, THREADS], ids=["processes", "threads"])
    @pytest.mark.parametrize("limit", [128, 20])
    def test_the_process_limit_is_graceful(self, runner, code, limit):
        limits = {} if limit == Limits().processes else {"processes": limit}
        # In gVisor a forked Python takes some 4 MiB of its own.
        result = run(runner, code, memory_mib=1024, **limits)
        assert str(result.stdout).split()[0] == str(limit - 1), describe(result)
        assert (result.outcome, result.exit_code) == (Outcome.OK, 0)
        assert f"limit of {limit} processes" in result.notes[0]

    def test_a_new_user_namespace_does_not_lift_it(self, runner):
        code = (
            "unshare -Ur true; echo $?; unshare -U true; echo $?\n"
            "python3 - <<'E'\nimport ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "print(libc.unshare(0x10000000), ctypes.get_errno())\n"
            "pid = libc.syscall(56, 0x10000011, 0, 0, 0, 0)\n"
            "if pid == 0: os._exit(0)\n"
            "print(pid)\nE"
        )
        result = run(runner, code, "bash")
        assert str(result.stdout).split() == ["1", "1", "-1", "1", "-1"], describe(
            result
        )

    def test_many_busy_threads_are_not_a_fork_bomb(self, runner):
        code = (
            "import time\nfrom concurrent.futures import ThreadPoolExecutor as P\n"
            "with P(100) as p: print(sum(p.map(lambda _: time.sleep(3) or 1, range(100))))"
        )
        result = run(runner, code)
        assert (result.outcome, str(result.stdout)) == (Outcome.OK, "100\n"), describe(
            result
        )

    @pytest.mark.parametrize("limit", [1024, 64])
    def test_open_files(self, runner, limit):
        limits = {} if limit == Limits().open_files else {"open_files": limit}
        result = run(runner, DESCRIPTORS, **limits)
        assert str(result.stdout) == f"{limit - 3} {errno.EMFILE}\n", describe(result)

    # --- files back ------------------------------------------------------------------------

    def test_the_number_of_files_back(self, runner):
        code = "for i in range(150): open(f'f{i}', 'w').close()"
        result = run(runner, code)
        assert len(result.files) == 100, describe(result)
        assert "50 files beyond the limit of 100" in result.skipped[-1].reason
        few = run(runner, code, files=3)
        assert len(few.files) == 3
        assert "147 files beyond" in few.skipped[-1].reason
