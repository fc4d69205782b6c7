"""Files into and out of the work folder, from inside the sandbox.

Both functions run as the program's user: unpack() in a child of the guest, before the program
starts; collect() in the guest, which has no use for root any more after every process of the
program is dead (a child would cost tens of milliseconds). So no link and no race can give a
program anything that it could not read by itself, and its ``0600`` files can be read at all.

While they run stdin and stdout are theirs, and no byte passes through the guest's loop. All
bytes go through one buffer each: to allocate memory costs more in gVisor than to copy it.
"""

import os
import select
import stat
import time
from itertools import islice

from sandbox_core.guest_process import hook_path
from sandbox_core.guest_wire import frame_of, json_text, literal

CHUNK = 1 << 18
HEADER = 5
DEEPEST = 20
LARGEST_VALUE = 1 << 19
NAMED_SKIPS = 50
MOST_LISTED = 1000
COLLECT_SECONDS = 3.0
COUNTING_SECONDS = 1.0
NOT_OUTPUT = {"__pycache__", "node_modules", "site-packages"}
KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


# --- in ------------------------------------------------------------------------------------


def unpack(report, boot):
    """Make the home folder (answer: r), place the files of F and D frames from stdin up to an
    E frame (answer: t and the file system's time); ! and the reason when that fails."""
    try:
        prepare_home(boot)
        write_all(report, frame_of(b"r", b""))
        Unpacker().run()
        unpack_packages(boot["packages"])
        write_all(report, frame_of(b"t", b"%d" % file_system_time()))
    except OSError as error:
        write_all(report, frame_of(b"!", str(error.strerror).encode()))


def prepare_home(boot):
    """The home folder, one for compilers, and links to the image's prepared configuration of
    matplotlib."""
    os.makedirs(boot["home"], 0o755, exist_ok=True)
    os.makedirs(boot["build"], 0o755, exist_ok=True)
    if boot["node_hook"]:
        with open(hook_path(boot), "w") as file:
            file.write(boot["node_hook"])
    target = boot["env"]["MPLCONFIGDIR"]
    if not os.path.isdir(boot["mpl_source"]):
        return
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(boot["mpl_source"]):
        os.symlink(os.path.join(boot["mpl_source"], name), os.path.join(target, name))


def unpack_packages(archive):
    """Unpack an archive of packages beside itself; it comes from another sandbox, and nothing
    here can do more than the program could."""
    if not archive or not os.path.exists(archive):
        return
    import tarfile

    with tarfile.open(archive) as opened:
        opened.extractall(os.path.dirname(archive))
    os.unlink(archive)


class Unpacker:
    """Places files as they come. After an error it reads on to the end all the same: the host
    sends everything before it listens."""

    def __init__(self):
        self.buffer = memoryview(bytearray(CHUNK))
        self.target = None
        self.problem = None
        os.set_blocking(0, True)

    def run(self):
        kind, size = self.next_header()
        while kind != b"E":
            if kind == b"F":
                self.attempt(self.open_target, literal(self.take(size))["name"])
            else:
                self.copy(size)
            kind, size = self.next_header()
        self.attempt(self.close_target)
        if self.problem is not None:
            raise self.problem

    def next_header(self):
        header = self.take(HEADER)
        return header[:1], int.from_bytes(header[1:], "big")

    def take(self, size):
        """Exactly so many bytes, which fit into the buffer."""
        taken = 0
        while taken < size:
            taken += self.read(self.buffer[taken:size])
        return bytes(self.buffer[:size])

    def copy(self, size):
        while size:
            count = self.read(self.buffer[:size])
            size -= count
            self.attempt(write_all, self.target, self.buffer[:count])

    def read(self, view):
        count = os.readv(0, [view])
        if not count:
            os._exit(0)  # our owner is gone; the guest will see it too
        return count

    def attempt(self, action, *arguments):
        if self.problem is None:
            try:
                action(*arguments)
            except OSError as error:
                self.problem = error

    def open_target(self, name):
        self.close_target()
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self.target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def close_target(self):
        if self.target is not None:
            os.close(self.target)
            self.target = None


def file_system_time():
    """The clock that stamps files, in ns: a file changed later is new to us."""
    marker = ".placed"
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    stamp = os.stat(marker).st_ctime_ns
    os.unlink(marker)
    return stamp


# --- out -----------------------------------------------------------------------------------


class Ended(Exception):
    """The collector has to stop: the run was cancelled, or its time is up."""


class Collector:
    """Sends the value, what was shown, and every new or changed regular file of the work
    folder to stdout, all bounded. A word of the host on stdin ends it between two frames: by
    now that can only be "cancel", or the end."""

    def __init__(self, job, placed_at, value_path):
        self.value_path = value_path
        self.placed_at = placed_at
        self.files_left = job["files"]
        self.file_bytes = job["file_bytes"]
        self.bytes_left = job["collected_bytes"]
        self.job = job
        self.named = 0
        self.excess = 0
        self.counting_until = None
        self.buffer = memoryview(bytearray(HEADER + CHUNK))
        self.end = time.monotonic() + COLLECT_SECONDS
        self.cancelled = False
        self.host = select.poll()
        self.host.register(0, select.POLLIN)
        os.set_blocking(1, True)

    def run(self):
        try:
            self.send_value()
            self.send_displays()
            folders = [""]
            while folders:
                folders.extend(self.walk(folders.pop()))
            self.tell_excess()
        except Ended:
            if not self.cancelled:
                reason = f"collecting took longer than {COLLECT_SECONDS:g} s"
                self.send(b"k", {"name": "", "reason": reason})

    def look_at_clock(self):
        if time.monotonic() > self.end:
            raise Ended

    def look_at_host(self):
        self.cancelled = bool(self.host.poll(0))
        if self.cancelled:
            raise Ended

    def walk(self, folder):
        """Send the files of one folder ("" or a path with a final /); return its sub-folders."""
        self.look_at_host()
        found = []
        try:
            entries = with_permission(open_folder, folder or ".", 0o700)
        except OSError as error:
            self.skip(folder, error.strerror)
            return found
        with entries:
            for entry in entries:
                self.look_at_clock()
                if self.counting_until and time.monotonic() > self.counting_until:
                    break
                if entry.name.startswith(".") or entry.name in NOT_OUTPUT:
                    continue
                name = folder + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    self.consider(entry, name)
                elif name.count("/") < DEEPEST:
                    found.append(name + "/")
                else:
                    self.skip(name, f"more than {DEEPEST} folders deep")
        return found

    def consider(self, entry, name):
        """Send a file if it is new or changed, regular, and within the bounds."""
        if self.files_left == 0 and self.excess:
            self.excess += 1
            return
        status = entry.stat(follow_symlinks=False)
        if status.st_ctime_ns <= self.placed_at:
            return
        reason = self.reason_against(status)
        if reason:
            self.skip(name, reason)
        elif self.files_left == 0:
            self.excess = 1
            self.counting_until = time.monotonic() + COUNTING_SECONDS
        else:
            self.send_file(name)

    def reason_against(self, status):
        for is_kind, word in KINDS:
            if is_kind(status.st_mode):
                return word + ", not a file"
        if status.st_size > self.file_bytes:
            return f"larger than the limit of {self.file_bytes >> 20} MB for one file"
        if status.st_size > self.bytes_left:
            return f"all files together are larger than {self.job['collected_bytes'] >> 20} MB"
        return ""

    def send_file(self, name):
        try:
            source = with_permission(open_file, name, 0o600)
        except OSError as error:
            self.skip(name, error.strerror)
            return
        self.files_left -= 1
        self.bytes_left -= self.send_content(b"f", name, source)

    def send_content(self, kind, name, source):
        """Send an open file whole, and close it; returns its size."""
        total = 0
        self.send(kind, {"name": printable(name)})
        self.buffer[:1] = b"d"
        size = os.readv(source, [self.buffer[HEADER:]])
        while size:
            total += size
            self.buffer[1:HEADER] = size.to_bytes(4, "big")
            self.write(self.buffer[: HEADER + size])
            self.look_at_clock()
            self.look_at_host()
            size = os.readv(source, [self.buffer[HEADER:]])
        os.close(source)
        self.send(b"q", {})
        return total

    def send_value(self):
        """The launcher's note of the last expression's value, if the last step left one."""
        try:
            source = open_file(self.value_path)
        except OSError:
            return
        if stat.S_ISREG(os.fstat(source).st_mode):
            self.write(frame_of(b"v", os.read(source, LARGEST_VALUE)))
        os.close(source)

    def send_displays(self):
        """The numbered files that the launcher has left in its folder, in order."""
        folder, room = self.job["display_folder"], self.job["all_display_bytes"]
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in islice(entries, MOST_LISTED))
        except OSError:
            return
        for name in names[: self.job["displays"]]:
            try:
                source = open_file(os.path.join(folder, name))
            except OSError:
                continue
            status = os.fstat(source)
            largest = min(room, self.job["display_bytes"])
            if stat.S_ISREG(status.st_mode) and status.st_size <= largest:
                room -= self.send_content(b"p", name, source)
            else:
                os.close(source)

    def skip(self, name, reason):
        self.named += 1
        if self.named <= NAMED_SKIPS:
            self.send(b"k", {"name": printable(name), "reason": reason})

    def tell_excess(self):
        if self.named > NAMED_SKIPS:
            reason = f"{self.named - NAMED_SKIPS} more things were left out"
            self.send(b"k", {"name": "", "reason": reason})
        if self.excess:
            more = "more than " if time.monotonic() > self.counting_until else ""
            reason = (
                f"{more}{self.excess} files beyond the limit of {self.job['files']}"
            )
            self.send(b"k", {"name": "", "reason": reason})

    def send(self, kind, values):
        self.write(frame_of(kind, json_text(values)))

    def write(self, data):
        """Send whole frames. The time that the host takes to read is not ours."""
        before = time.monotonic()
        write_all(1, data)
        self.end += time.monotonic() - before


def with_permission(open_it, name, mode):
    """open_it(name), with the permission bits that its owner may have taken away."""
    try:
        return open_it(name)
    except PermissionError:
        os.chmod(name, mode)
        return open_it(name)


def open_folder(name):
    os.stat(os.path.join(name, "."))  # to list it is not enough
    return os.scandir(name)


def open_file(name):
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


def printable(name):
    """A file name as text: bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(name).decode("utf-8", "replace")


def collect(work, job, placed_at, value_path):
    """Send what there is in the folder ``work`` and beside it; raises OSError."""
    with_permission(os.chdir, work, 0o700)
    Collector(job, placed_at, value_path).run()
