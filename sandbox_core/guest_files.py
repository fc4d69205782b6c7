"""Files into and out of the work folder, from inside the sandbox.

Both functions run in a child of the guest that has become the program's user: before the
program starts, and after every process of it is dead. So no link and no race can give a
program anything that it could not read by itself, and its ``0600`` files can be read at all.
"""

import os
import stat
import time
from itertools import islice

from sandbox_core.guest_wire import frame_of, json_text, literal, take_frame

CHUNK = 1 << 18
DEEPEST = 20
LARGEST_VALUE = 1 << 19
NAMED_SKIPS = 50
MOST_LISTED = 1000
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


def read_frames(descriptor):
    """Yield (kind, payload) from a pipe until its end."""
    received = bytearray()
    data = os.read(descriptor, CHUNK)
    while data:
        received += data
        frame = take_frame(received)
        while frame is not None:
            yield frame
            frame = take_frame(received)
        data = os.read(descriptor, CHUNK)


# --- in ------------------------------------------------------------------------------------


def unpack(source, sink, boot):
    """Make the home folder (answer: r), place the files of F and D frames (answer: t and the
    file system's time); ! and the reason when that fails."""
    try:
        prepare_home(boot)
        write_all(sink, frame_of(b"r", b""))
        place_files(source)
        write_all(sink, frame_of(b"t", b"%d" % file_system_time()))
    except OSError as error:
        write_all(sink, frame_of(b"!", str(error.strerror).encode()))


def prepare_home(boot):
    """The home folder, and links to the image's prepared configuration of matplotlib."""
    os.makedirs(boot["home"], 0o755, exist_ok=True)
    target = boot["env"]["MPLCONFIGDIR"]
    if not os.path.isdir(boot["mpl_source"]):
        return
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(boot["mpl_source"]):
        os.symlink(os.path.join(boot["mpl_source"], name), os.path.join(target, name))


def place_files(source):
    target = None
    for kind, payload in read_frames(source):
        if kind == b"D":
            write_all(target, payload)
            continue
        if target is not None:
            os.close(target)
        name = literal(payload)["name"]
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    if target is not None:
        os.close(target)


def file_system_time():
    """The clock that stamps files, in ns: a file changed later is new to us."""
    marker = ".placed"
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    stamp = os.stat(marker).st_ctime_ns
    os.unlink(marker)
    return stamp


# --- out -----------------------------------------------------------------------------------


class Collector:
    """Sends the value, what was shown, and every new or changed regular file of the work
    folder, all bounded."""

    def __init__(self, sink, job, placed_at, value_path):
        self.sink = sink
        self.value_path = value_path
        self.placed_at = placed_at
        self.files_left = job["files"]
        self.file_bytes = job["file_bytes"]
        self.bytes_left = job["collected_bytes"]
        self.job = job
        self.named = 0
        self.excess = 0
        self.counting_until = None

    def run(self):
        self.send_value()
        self.send_displays()
        folders = [""]
        while folders:
            folders.extend(self.walk(folders.pop()))
        self.tell_excess()

    def walk(self, folder):
        """Send the files of one folder ("" or a path with a final /); return its sub-folders."""
        found = []
        try:
            entries = with_permission(open_folder, folder or ".", 0o700)
        except OSError as error:
            self.skip(folder, error.strerror)
            return found
        with entries:
            for entry in entries:
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
        size = 0
        self.send(kind, {"name": printable(name)})
        data = os.read(source, CHUNK)
        while data:
            size += len(data)
            write_all(self.sink, frame_of(b"d", data))
            data = os.read(source, CHUNK)
        os.close(source)
        self.send(b"q", {})
        return size

    def send_value(self):
        """The launcher's note of the last expression's value, if the last step left one."""
        try:
            source = open_file(self.value_path)
        except OSError:
            return
        if stat.S_ISREG(os.fstat(source).st_mode):
            write_all(self.sink, frame_of(b"v", os.read(source, LARGEST_VALUE)))
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
        write_all(self.sink, frame_of(kind, json_text(values)))


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


def collect(sink, job, placed_at, value_path):
    Collector(sink, job, placed_at, value_path).run()
