"""The runner contract: what a program cannot see, reach or do, on any runner."""

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from sandbox_core.outcome import Outcome
from tests.contract.runs import contents, describe, run

R22 = """
import socket
for h, p in [("169.254.169.254", 80), ("fd00:ec2::254", 80), ("172.17.0.1", 2375),
             ("10.0.0.1", 80), ("192.168.0.1", 80), ("host.docker.internal", 8080),
             ("open-webui", 8080), ("example.com", 443), ("127.0.0.1", PORT)]:
    try:
        socket.create_connection((h, p), 2).close(); print("OPEN", h, p)
    except OSError as e:
        print("closed", h, type(e).__name__)
"""
R23 = """
env; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/self/mountinfo
ls -l /var/run/docker.sock /run/docker.sock 2>&1; id; cat /etc/resolv.conf /etc/hosts /etc/hostname
cat /proc/1/cmdline | tr '\\0' '\\n'
"""
RIGHTS = """
import ctypes, os, resource
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(os.getresuid(), os.getresgid(), os.getgroups())
print({status[name].strip() for name in ("CapInh", "CapPrm", "CapEff")})
print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))
print(os.getsid(0) == os.getpid(), os.umask(0), resource.getrlimit(resource.RLIMIT_CORE))
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4])
"""
REACH = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, action):
    try:
        print("REACHED", name, action())
    except (OSError, ValueError):
        print("refused", name)
own = {os.fstat(fd).st_ino for fd in (0, 1, 2)}
def is_for_all(fd, flags):
    # What the guest looks at just now, and anybody may open by its name: /proc/meminfo.
    try:
        other = os.open(os.readlink(f"/proc/self/fd/{fd}"), flags)
    except OSError:
        return False
    return os.path.samestat(os.fstat(fd), os.fstat(other))
def open_of(path, flags):
    fd = os.open(path, flags | os.O_NONBLOCK)
    if os.fstat(fd).st_ino in own or is_for_all(fd, flags | os.O_NONBLOCK):
        raise OSError("but for the program's own pipes, and what is open to all")
    return path
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
attempt("mem", lambda: open("/proc/1/mem", "rb").read(1))
for fd in range(20):
    attempt(f"fd{fd} read", lambda: open_of(f"/proc/1/fd/{fd}", os.O_RDONLY))
    attempt(f"fd{fd} write", lambda: open_of(f"/proc/1/fd/{fd}", os.O_WRONLY))
for name in ("cwd", "root", "exe"):
    attempt(name, lambda: os.readlink(f"/proc/1/{name}"))
for number in (0, signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTERM):
    attempt(f"kill {number}", lambda: os.kill(1, number))
attempt("ptrace attach", lambda: checked(libc.ptrace(16, 1, 0, 0)))
attempt("ptrace seize", lambda: checked(libc.ptrace(0x4206, 1, 0, 0)))
buffer = ctypes.create_string_buffer(16)
iov = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16)
remote = (ctypes.c_void_p * 2)(0x400000, 16)
attempt("vm read", lambda: checked(libc.process_vm_readv(1, iov, 1, remote, 1, 0)))
attempt("pidfd", lambda: checked(libc.syscall(438, libc.syscall(434, 1, 0), 0, 0)))
attempt("setuid", lambda: os.setuid(0))
attempt("setresuid", lambda: os.setresuid(0, 0, 0))
attempt("setgid", lambda: os.setgid(0))
attempt("mount", lambda: checked(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)))
attempt("chroot", lambda: os.chroot("/tmp"))
for device in ((1, 1), (1, 2), (1, 4), (1, 11)):
    # gVisor lets everyone make device files: there is no memory and no kernel log behind them.
    name = "/mnt/data/dev-%d-%d" % device
    attempt(name, lambda: (os.mknod(name, 0o020666, os.makedev(*device)), open(name, "rb")))
attempt("nproc", lambda: __import__("resource").setrlimit(6, (10**6, 10**6)))
"""
SUID = """
cp /bin/bash ./b; chmod u+s ./b; ./b -p -c 'id -u'
for tool in su passwd mount umount newgrp; do
  command -v $tool >/dev/null && echo | $tool -c id
done
sudo -n id
id -u
"""


class IsolationContract:
    """Inherit and give the fixture ``runner``."""

    def test_it_really_is_gvisor(self, runner):
        result = run(runner, "dmesg | head -3; uname -r", "bash")
        assert "Starting gVisor" in str(result.stdout), describe(result)
        assert "4.4.0" in result.evidence["kernel"]

    def test_r22_no_network_is_reachable(self, runner):
        with socket.create_server(("127.0.0.1", 0)) as ours:
            result = run(runner, R22.replace("PORT", str(ours.getsockname()[1])))
        lines = str(result.stdout).splitlines()
        assert len(lines) == 9, describe(result)
        assert all(line.startswith("closed") for line in lines), describe(result)
        assert result.seconds < 20

    def test_r23_no_secret_is_visible(self, runner, monkeypatch):
        secret = "s3cr3t-" + os.urandom(8).hex()
        for name in ("WEBUI_SECRET_KEY", "JWT_SECRET", "OPENAI_API_KEY"):
            monkeypatch.setenv(name, secret)
        result = run(runner, R23, "bash")
        text = str(result.output)
        assert "uid=1000" in text, describe(result)
        for word in (
            secret,
            "WEBUI_SECRET_KEY",
            "/var/lib/docker",
            "overlay2",
            os.getcwd(),
        ):
            assert word not in text
        assert socket.gethostname() + "\n" not in text
        assert (
            text.count("No such file or directory") >= 2
        ), "a docker socket was listed"

    def test_the_program_is_nobody_special(self, runner):
        result = run(runner, RIGHTS)
        assert str(result.stdout).splitlines() == [
            "(1000, 1000, 1000) (1000, 1000, 1000) []",
            "{'0000000000000000'}",
            "1",
            "True 18 (0, 0)",
            "[0, 1, 2, 3]",
        ], describe(result)

    def test_the_guest_and_its_channel_are_out_of_reach(self, runner):
        result = run(runner, REACH)
        assert result.outcome is Outcome.OK, describe(result)
        lines = str(result.stdout).splitlines()
        assert len(lines) > 30
        reached = [line for line in lines if not line.startswith("refused")]
        assert not reached, reached

    def test_no_program_makes_it_root(self, runner):
        result = run(runner, SUID, "bash")
        ids = [line for line in str(result.stdout).splitlines() if line.strip()]
        assert set(ids) == {"1000"}, describe(result)

    def test_runs_do_not_see_each_other(self, runner):
        """Side by side, with equal names and different contents."""

        def one(number):
            code = (
                "import time\nprint(open('in.txt').read())\ntime.sleep(0.3)\n"
                f"open('out.txt', 'w').write('{number}')\nprint({number})"
            )
            seen = []
            result = run(
                runner, code, on_event=seen.append, inputs={"in.txt": b"%d" % number}
            )
            return number, result, seen

        with ThreadPoolExecutor(4) as pool:
            for number, result, seen in pool.map(one, range(12)):
                assert str(result.stdout) == f"{number}\n{number}\n", describe(result)
                assert contents(result) == {"out.txt": b"%d" % number}
                text = "".join(event.text for event in seen)
                assert text == f"{number}\n{number}\n"
        assert threading.active_count() < 60

    def test_nothing_stays_from_one_run_to_the_next(self, runner):
        run(
            runner, "touch /tmp/left /dev/shm/left left $HOME/left; sleep 100 &", "bash"
        )
        result = run(runner, "ls -A /tmp /dev/shm . $HOME | grep left; true", "bash")
        assert (result.outcome, str(result.stdout)) == (Outcome.OK, ""), describe(
            result
        )

    def test_the_interpreter_and_the_clock_are_as_expected(self, runner):
        code = (
            "import datetime, locale, os, time\n"
            "print(locale.getpreferredencoding().lower(), time.tzname, os.getcwd(), "
            "os.path.expanduser('~'), time.time())"
        )
        before = time.time()
        result = run(runner, code)
        *words, clock = str(result.stdout).split()
        assert words == [
            "utf-8",
            "('UTC',",
            "'UTC')",
            "/mnt/data",
            "/tmp/home",
        ], describe(result)
        assert before - 2 < float(clock) < time.time() + 2
