"""The runner contract: what a program prints, and what it is given, on any runner."""

import hashlib

import pytest

from sandbox_core.outcome import Outcome
from tests.contract.runs import contents, describe, run, run_steps

MIB = 1 << 20
ORDER = """
import sys, time
for i in range(4):
    print("out", i)
    time.sleep(0.05)
    print("err", i, file=sys.stderr)
    time.sleep(0.05)
"""
ODD_NAMES = [
    "a b.txt",
    "q\"uote'.txt",
    "new\nline.txt",
    "-rf.txt",
    "u\u0308n.txt",
    "naïve-测试.txt",
    "100%25.txt",
    "<b>.txt",
    "](http:x).txt",
    "x" * 251 + ".txt",
    "CON",
    "a.tar.gz",
]
THINGS = """
import os, socket
os.mkfifo("pipe"); os.symlink("/etc/passwd", "passwd.txt"); os.symlink("loop", "loop")
os.symlink("..", "up"); os.symlink("/proc/self/environ", "env.txt")
socket.socket(socket.AF_UNIX).bind("socket")
open("real.txt", "w").write("r"); os.link("real.txt", "hard.txt")
try: open("hole.bin", "wb").truncate(10**12)
except OSError as e: print("no hole", e.errno)
"""


class OutputContract:
    """Inherit and give the fixture ``runner``."""

    def test_both_streams_keep_their_order(self, runner):
        result = run(runner, ORDER)
        lines = [f"{stream} {i}" for i in range(4) for stream in ("out", "err")]
        assert str(result.output).splitlines() == lines, describe(result)
        assert str(result.stdout) == "".join(f"out {i}\n" for i in range(4))
        assert str(result.stderr) == "".join(f"err {i}\n" for i in range(4))

    def test_the_streams_can_be_opened_by_name(self, runner):
        code = (
            "echo a >/dev/stderr; echo b >/dev/stdout; cat /dev/stdin; cat </dev/fd/0"
        )
        result = run(runner, code, "bash", stdin=b"given\n")
        assert result.outcome is Outcome.OK, describe(result)
        assert (str(result.stdout), str(result.stderr)) == ("b\ngiven\n", "a\n")

    def test_files_in_a_locked_work_folder_come_out(self, runner):
        code = "import os\nopen('a.txt', 'w').write('a')\nos.chmod('.', 0)"
        assert contents(run(runner, code)) == {"a.txt": b"a"}

    @pytest.mark.parametrize("size", [0, 1, 70_000, 16 * MIB], ids=str)
    def test_stdin_arrives_whole(self, runner, size):
        data = (b"0123456789abcde\n" * (size // 16 + 1))[:size]
        code = "import hashlib, sys\nprint(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
        result = run(runner, code, stdin=data, memory_mib=64)
        assert result.outcome is Outcome.OK, describe(result)
        assert str(result.stdout).strip() == hashlib.sha256(data).hexdigest()

    def test_unread_stdin_is_no_trouble_and_is_for_the_first_step(self, runner):
        result = run_steps(
            runner,
            [("bash", "read -r a; echo $a"), ("bash", "cat; echo .")],
            stdin=b"x\n" * 90_000,
        )
        assert (result.outcome, str(result.stdout)) == (Outcome.OK, "x\n.\n"), describe(
            result
        )

    def test_r01a_input_without_a_keyboard(self, runner):
        result = run(runner, 'name = input("Name? ")\nprint("hi", name)')
        assert result.outcome is Outcome.FAILED, describe(result)
        assert str(result.stdout).startswith("Name?")
        assert "EOFError" in str(result.stderr)
        assert result.seconds < 5

    def test_nothing_is_lost_at_a_kill(self, runner):
        code = 'for i in range(5): print("line", i)\nprint("no newline", end="")\nwhile True: pass'
        result = run(runner, code, seconds=1)
        assert result.outcome is Outcome.TIMEOUT
        assert str(result.stdout).endswith("line 4\nno newline"), describe(result)

    def test_r06_a_little_too_much_is_no_crime(self, runner):
        result = run(runner, 'for i in range(20000):\n    print("line", i)')
        assert result.outcome is Outcome.OK, describe(result)
        text = str(result.stdout)
        assert text.startswith("line 0\nline 1\n")
        assert text.endswith("line 19998\nline 19999\n")

    def test_head_and_tail_are_kept_and_the_rest_is_counted(self, runner):
        code = "for i in range(3000): print(f'{i:06}' + 'x' * 93)"
        result = run(runner, code, kept_output_kib=16)
        assert result.outcome is Outcome.OK, describe(result)
        assert result.stdout.head.startswith("000000x")
        assert result.stdout.tail.endswith("002999" + "x" * 93 + "\n")
        kept = len(result.stdout.head) + len(result.stdout.tail)
        assert result.stdout.omitted == 3000 * 100 - kept
        assert kept <= 2 * 16 * 1024

    def test_r08_all_bytes(self, runner):
        code = 'import sys\nsys.stdout.buffer.write(bytes(range(256)) + b"END")'
        result = run(runner, code)
        assert result.outcome is Outcome.OK, describe(result)
        text = str(result.stdout)
        assert text.endswith("END")
        assert "\x00" not in text
        assert "�" in text
        text.encode("utf-8")

    def test_escapes_go_and_redraws_collapse(self, runner):
        code = r'print("\x1b[31mred\x1b[0m\x1b]0;title\x07"); print("10%\r50%\r100%")'
        result = run(runner, code)
        assert str(result.stdout) == "red\n100%\n", describe(result)

    def test_the_value_of_the_last_expression(self, runner):
        result = run(runner, "print('shown')\na = 1; b = 2\na + b")
        assert (str(result.stdout), result.value) == ("shown\n", "3"), describe(result)
        result = run(runner, "import sys\n'\\x1b[31m' + chr(0x2502)\n")
        assert result.value == "'\\x1b[31m│'", describe(result)
        assert run(runner, "a = 1").value is None

    def test_r36_main_guard_and_r18_workers(self, runner):
        code = """
from multiprocessing import get_context
def sq(x):
    return x * x
if __name__ == "__main__":
    with get_context("forkserver").Pool(2) as p:
        print(p.map(sq, [1, 2, 3]))
"""
        result = run(runner, code)
        assert (result.outcome, str(result.stdout)) == (
            Outcome.OK,
            "[1, 4, 9]\n",
        ), describe(result)

    # --- files -----------------------------------------------------------------------------

    def test_files_come_in_and_changed_ones_go_out(self, runner):
        files = {
            "in.txt": b"in",
            "sub/deep/same.bin": bytes(range(256)),
            "change.me": b"old",
        }
        code = (
            "import os\nprint(sorted(os.listdir()), open('sub/deep/same.bin','rb').read()"
            " == bytes(range(256)))\nopen('change.me', 'a').write('+new')\n"
            "os.makedirs('out/a'); open('out/a/b.bin', 'wb').write(b'\\0' * 100_000)"
        )
        result = run(runner, code, inputs=files)
        assert str(result.stdout) == "['change.me', 'in.txt', 'main.py', 'sub'] True\n"
        assert contents(result) == {
            "change.me": b"old+new",
            "out/a/b.bin": b"\0" * 100_000,
        }
        assert [file.size for file in result.files] == [7, 100_000]

    def test_f01_odd_names_survive(self, runner):
        code = f"for n in {ODD_NAMES!r}:\n    open(n, 'w').write(n[:3])"
        result = run(runner, code, inputs={name: b"" for name in ODD_NAMES})
        assert contents(result) == {name: name[:3].encode() for name in ODD_NAMES}

    def test_r11_scripts_of_the_world(self, runner):
        code = 'print("héllo 你好 🧪 e\u0301 \u202eabc")'
        assert str(run(runner, code).stdout) == "héllo 你好 🧪 e\u0301 \u202eabc\n"

    def test_names_that_are_no_utf8_are_told_apart(self, runner):
        code = "for b in (b'\\xff', b'\\xfe'):\n    open(b'x' + b, 'wb').write(b)"
        result = run(runner, code)
        assert sorted(contents(result).values()) == [b"\xfe", b"\xff"], describe(result)
        assert len({file.name for file in result.files}) == 2

    def test_r34_only_regular_files_come_back(self, runner):
        result = run(runner, THINGS)
        made = {"real.txt": b"r", "hard.txt": b"r", "hole.bin": b""}
        assert contents(result) == made, describe(result)
        skipped = {entry.name: entry.reason for entry in result.skipped}
        assert {
            "pipe",
            "passwd.txt",
            "loop",
            "up",
            "env.txt",
            "socket",
        } <= skipped.keys()
        assert "link" in skipped["up"]
        assert "pipe" in skipped["pipe"]
        assert str(result.stdout) == "no hole 27\n"

    def test_too_many_and_too_large_files_are_told(self, runner):
        code = (
            "for i in range(10): open(f'f{i}', 'w').close()\n"
            "open('a-large', 'wb').write(b'x' * 1_100_000)"
        )
        result = run(runner, code, file_mib=1)
        assert len(result.files) == 10, describe(result)
        assert [(s.name, "1 MB" in s.reason) for s in result.skipped] == [
            ("a-large", True)
        ]

    def test_files_of_a_failure_come_back_too(self, runner):
        result = run(runner, "open('a', 'w').write('1'); raise SystemExit(2)")
        assert (result.outcome, contents(result)) == (Outcome.FAILED, {"a": b"1"})
