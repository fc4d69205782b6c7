"""Processes inside the sandbox: how a child becomes the program, and what can be seen of it."""

import _signal
import ctypes
import os
import resource
import select

from sandbox_core.guest_wire import Sender

CHUNK = 1 << 18
RELEASE_DESCRIPTOR = 200
REPORT_DESCRIPTOR = 3
ROOT = 0
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SYSLOG_READ_ALL = 3
MACHINES = {  # audit architecture, and the numbers of unshare, setns, clone, clone3
    "x86_64": (0xC000003E, 272, 308, 56, 435),
    "aarch64": (0xC00000B7, 97, 268, 220, 435),
}
CLONE_NEWUSER = 0x10000000
EPERM_ACTION = 0x00050001
ENOSYS_ACTION = 0x00050026
ALLOW_ACTION = 0x7FFF0000
SYSINFO = ctypes.create_string_buffer(128)


class Program:
    """The main process of a step, and our ends of its pipes."""

    def __init__(self, pid, stdin, stdout, stderr):
        self.pid = pid
        self.input = Sender(stdin)
        self.input_open = True
        self.supplied = False
        self.outputs = {stdout: b"o", stderr: b"e"}
        self.resting_until = {stdout: 0.0, stderr: 0.0}
        self.status = None
        for descriptor in self.outputs:
            os.set_blocking(descriptor, False)

    def supply(self, parts):
        """Give the program its whole stdin; it is closed after the last byte."""
        for part in parts:
            self.input.put(part)
        self.supplied = True
        self.feed()

    def interests(self, now, may_read):
        if self.input_open and self.supplied:
            yield self.input.descriptor, select.POLLOUT
        for descriptor, until in self.resting_until.items():
            if may_read and until <= now:
                yield descriptor, select.POLLIN

    def feed(self):
        self.input.flush()
        if self.supplied and not self.input.parts and self.input_open:
            os.close(self.input.descriptor)
            self.input_open = False

    def close_output(self, descriptor):
        os.close(descriptor)
        del self.outputs[descriptor]
        del self.resting_until[descriptor]

    def close(self):
        if self.input_open:
            os.close(self.input.descriptor)
            self.input_open = False
        for descriptor in list(self.outputs):
            self.close_output(descriptor)


class Helper:
    """A child that works on files as the program's user, with our stdin as its own; it reports
    in frames over a pipe, whose end tells that it is over."""

    def __init__(self, source):
        self.source = source
        self.received = bytearray()
        self.open = True
        os.set_blocking(source, False)

    def read(self):
        try:
            data = os.read(self.source, CHUNK)
        except BlockingIOError:
            return
        self.received += data
        self.open = bool(data)

    def close(self):
        """Take stdin back, which it has made blocking."""
        os.close(self.source)
        os.set_blocking(0, False)


class Launcher:
    """An interpreter that waits for its release; ``ready`` tells that it does."""

    def __init__(self, boot, argv, tells_ready):
        receive, self.release_end = os.pipe()
        self.ready, ready_end = os.pipe()
        extra = (receive, ready_end) if tells_ready else (receive,)
        self.program = start_program(boot, argv, {}, extra)
        os.close(receive)
        os.close(ready_end)

    def release(self, step):
        """Let it run the program of a step; gives the Program."""
        fields = ["path=" + step["path"], "value=" + step["value_path"]]
        fields += [f"env={name}={value}" for name, value in step["env"].items()]
        os.write(self.release_end, "\0".join([*fields, "", ""]).encode())
        self.close()
        return self.program

    def close(self):
        os.close(self.release_end)
        os.close(self.ready)


def start_python(boot, preload=()):
    """The launcher, which imports these modules first."""
    text, *arguments = boot["launcher"]
    argv = ["python3", "-c", text, str(RELEASE_DESCRIPTOR), *arguments, *preload]
    # Only one that preloads knows of the second descriptor, and closes it.
    return Launcher(boot, argv, bool(preload))


def start_node(boot):
    """A Node.js that waits in a module of ours; which program it runs the release tells."""
    return Launcher(boot, ["node", "-r", hook_path(boot), "main.js"], True)


def hook_path(boot):
    """Where the module is that a waiting Node.js loads, and its worker threads too."""
    return os.path.join(boot["build"], "wait.cjs")


def start_program(boot, argv, env, extra=()):
    """Start argv as the program's user. ``extra`` descriptors become 200, 201, … in it."""
    os.seteuid(boot["uid"])  # only the owner of a pipe may open it again as /dev/stdout
    try:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
    finally:
        os.seteuid(ROOT)
    pid = os.fork()
    if pid == 0:
        try:
            for number, end in enumerate((stdin[0], stdout[1], stderr[1])):
                os.dup2(end, number)
            for number, end in enumerate(extra, RELEASE_DESCRIPTOR):
                os.dup2(end, number)
            os.setsid()
            for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
                _signal.signal(number, _signal.SIG_DFL)
            set_resource_limits(boot)
            drop_privileges(boot)
            os.chdir(boot["work"])
            os.execvpe(argv[0], argv, dict(boot["env"], **env))
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    for end in (stdin[0], stdout[1], stderr[1]):
        os.close(end)
    return Program(pid, stdin[1], stdout[0], stderr[0])


def is_program(path, name):
    """Whether the image has a program of this name. Only root can write where it looks."""
    folders = path.split(":")
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)


def start_helper(boot, work):
    """Run work(report) in a child that has become the program's user."""
    receive, report = os.pipe()
    if os.fork() == 0:
        try:
            _signal.set_wakeup_fd(-1)
            os.dup2(report, REPORT_DESCRIPTOR)
            os.closerange(REPORT_DESCRIPTOR + 1, 256)
            drop_privileges(boot)
            os.chdir(boot["work"])
            work(REPORT_DESCRIPTOR)
        finally:
            os._exit(0)
    os.close(report)
    return Helper(receive)


def set_resource_limits(boot):
    for kind, value in (
        # gVisor counts this process for the user that made it: root.
        (resource.RLIMIT_NPROC, boot["processes"] - 1),
        (resource.RLIMIT_NOFILE, boot["open_files"]),
        (resource.RLIMIT_FSIZE, boot["file_size"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def drop_privileges(boot):
    """Become the program's user for good."""
    os.umask(0o022)
    os.setgroups([])
    os.setresgid(boot["gid"], boot["gid"], boot["gid"])
    os.setresuid(boot["uid"], boot["uid"], boot["uid"])


def forbid_user_namespaces():
    """Seccomp for this process and all that it starts: a new user namespace would switch
    RLIMIT_NPROC off. clone3 hides its flags from a filter, so libc has to fall back to clone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    machine = MACHINES.get(os.uname().machine)
    if machine is None:
        raise OSError("no system call filter for " + os.uname().machine)
    audit, unshare, setns, clone, clone3 = machine
    load, jump_equal, jump_set, give = 0x20, 0x15, 0x45, 0x06
    rules = (
        (load, 0, 0, 4),  # seccomp_data.arch
        (jump_equal, 0, 8, audit),
        (load, 0, 0, 0),  # seccomp_data.nr
        (jump_equal, 5, 0, unshare),
        (jump_equal, 4, 0, setns),
        (jump_equal, 4, 0, clone3),
        (jump_equal, 0, 4, clone),
        (load, 0, 0, 16),  # the flags, low half of the first argument
        (jump_set, 0, 2, CLONE_NEWUSER),
        (give, 0, 0, EPERM_ACTION),
        (give, 0, 0, ENOSYS_ACTION),
        (give, 0, 0, ALLOW_ACTION),
    )
    code = b"".join(
        kind.to_bytes(2, "little")
        + bytes((when, otherwise))
        + value.to_bytes(4, "little")
        for kind, when, otherwise, value in rules
    )
    program = ctypes.create_string_buffer(code, len(code))
    address = ctypes.addressof(program)
    header = ctypes.create_string_buffer(16)
    header[0:2] = len(rules).to_bytes(2, "little")
    header[8:16] = address.to_bytes(8, "little")
    for option, first, second in (
        (PR_SET_NO_NEW_PRIVS, 1, None),
        (PR_SET_SECCOMP, 2, header),
    ):
        if libc.prctl(option, first, second, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl refused option {option}")


def describe_kernel():
    """What the kernel says of itself. gVisor's kernel log is its own; no other has its line."""
    log = ctypes.create_string_buffer(1 << 16)
    size = ctypes.CDLL(None).klogctl(SYSLOG_READ_ALL, log, len(log))
    with open("/proc/version") as version:
        return {
            "gvisor": size > 0 and b"Starting gVisor" in log.raw[:size],
            "kernel": version.read(200).strip(),
        }


def memory_now(folders):
    """(free, used by programs) in bytes. What fills the size-capped folders is not used."""
    values = {}
    with open("/proc/meminfo", "rb") as lines:
        for line in lines:
            name, rest = line.split(b":")
            values[name] = int(rest.split()[0]) * 1024
    in_folders = 0
    for folder in folders:
        status = os.statvfs(folder)
        in_folders += (status.f_blocks - status.f_bfree) * status.f_frsize
    return values[b"MemFree"], values[b"AnonPages"] - in_folders


def is_one_full(folders):
    """Whether one of the folders has less than 64 KiB left."""
    free = (os.statvfs(folder) for folder in folders)
    return any(status.f_bavail * status.f_frsize < 1 << 16 for status in free)


def count_tasks():
    """Processes and threads of the whole sandbox, this one included."""
    ctypes.CDLL(None).sysinfo(SYSINFO)
    return int.from_bytes(SYSINFO[80:82], "little")


def kill_all():
    """SIGKILL for every process but this one, in every process group and namespace."""
    try:
        os.kill(-1, _signal.SIGKILL)
    except ProcessLookupError:
        pass
