"""A root file system made of this machine's own Python, for where no image was prepared.

An allow-list: the standard library's code, named packages by their own lists of files, named
programs, and the libraries that all of these load. Everything is copied to the path that it
has here, into a folder with an /etc of our own; nothing else of this machine is in it.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

__all__ = ["HOST_PACKAGES", "host_root_key", "make_host_root"]

# Distributions, with what they need in turn. What is not installed here is left out.
HOST_PACKAGES = (
    "numpy",
    "pandas",
    "python-dateutil",
    "six",
    "pytz",
    "tzdata",
    "matplotlib",
    "contourpy",
    "cycler",
    "fonttools",
    "kiwisolver",
    "packaging",
    "pillow",
    "pyparsing",
)
_PROGRAMS = (
    *(
        "bash",
        "sh",
        "env",
        "node",
        "awk",
        "find",
        "grep",
        "sed",
        "tar",
        "gzip",
        "xargs",
    ),
    *("basename", "cat", "chmod", "cp", "cut", "date", "dirname", "du", "df", "echo"),
    *("false", "head", "id", "ln", "ls", "md5sum", "mkdir", "mktemp", "mv", "od"),
    *("paste", "printf", "pwd", "readlink", "rm", "rmdir", "seq", "sha256sum", "shuf"),
    *("sleep", "sort", "split", "stat", "tac", "tail", "tee", "test", "touch", "tr"),
    *("true", "uname", "uniq", "wc", "which", "yes", "ps", "diff"),
)
_DATA_FOLDERS = ("/usr/lib/locale/C.utf8", "/usr/share/zoneinfo")
_STDLIB_SUFFIXES = (".py", ".pyc", ".so")
_STDLIB_LEFT_OUT = {
    *("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter"),
    *("turtledemo", "ensurepip"),
}
_TOP_LINKS = ("bin", "sbin", "lib", "lib32", "lib64")
_ETC = {
    "passwd": "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000::/tmp/home:/bin/bash\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}
# Changes when a root that was made before would not be made in the same way today.
_FORMAT = "1"
_LDD_SECONDS = 60
_COMPILE_SECONDS = 300


def host_root_key() -> str:
    """Names the contents: another Python or package here means another root."""
    parts = [_FORMAT, sys.version, _interpreter()]
    parts += [f"{entry.name}={entry.version}" for entry in _distributions()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def make_host_root(root: Path) -> None:
    """Fill an empty folder. Takes some seconds. Raises OSError."""
    _make_skeleton(root)
    loaders = []
    for target, source in (*_code_and_data(), *_programs(), *_package_files()):
        _place(root, source, target)
        if source.endswith(".so") or os.access(source, os.X_OK):
            loaders.append(source)
    homes = tuple(f"{_home_of(entry)}/" for entry in _distributions())
    for library in _libraries_of(loaders):
        if not library.startswith(homes):  # a package's own, which is there already
            _place(root, library, library)
    _finish(root)


def _make_skeleton(root: Path) -> None:
    for name in ("proc", "dev", "sys", "tmp", "mnt/data", "etc", "usr/bin"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _TOP_LINKS:
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}").lstrip("/"))
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)


def _finish(root: Path) -> None:
    """What programs expect under a fixed name, and compiled modules: the root is read-only."""
    stdlib = root / _stdlib().lstrip("/")
    link = stdlib / "dist-packages"  # Debian's name for the same place
    if (stdlib / "site-packages").is_dir() and not link.exists():
        link.symlink_to("site-packages")
    for name in ("python3", "python"):
        command = root / "usr/bin" / name
        if not command.exists():
            command.symlink_to(_interpreter())
    subprocess.run(
        [sys.executable, "-m", "compileall", "-qq", "-s", str(root), str(stdlib)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_COMPILE_SECONDS,
        check=False,  # a few of Python's own files are broken on purpose
    )


def _interpreter() -> str:
    """The real Python behind a virtual environment or a version switcher."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base)


def _stdlib() -> str:
    return os.path.realpath(sysconfig.get_path("stdlib"))


def _code_and_data() -> Iterator[tuple[str, str]]:
    """(path in the root, path here) of the standard library's code, and of data that hold no
    secret on any machine."""
    for folder, below, names in os.walk(_stdlib()):
        below[:] = [name for name in below if name not in _STDLIB_LEFT_OUT]
        for name in names:
            if name.endswith(_STDLIB_SUFFIXES):
                path = os.path.join(folder, name)
                yield path, path
    for data in _DATA_FOLDERS:
        for folder, _, names in os.walk(data):
            for name in names:
                path = os.path.join(folder, name)
                yield path, path


def _programs() -> Iterator[tuple[str, str]]:
    """The interpreter, and the named programs that this machine has."""
    yield _interpreter(), _interpreter()
    for name in _PROGRAMS:
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if found is not None:
            yield found, found


def _distributions() -> list[metadata.Distribution]:
    found = []
    for name in HOST_PACKAGES:
        try:
            found.append(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return found


def _home_of(distribution: metadata.Distribution) -> str:
    return os.path.realpath(str(distribution.locate_file("")))


def _package_files() -> Iterator[tuple[str, str]]:
    """(path in the root, path here) of each file that a package says is its own."""
    site = f"{_stdlib()}/site-packages"
    for distribution in _distributions():
        home = _home_of(distribution)
        for file in distribution.files or ():
            if ".." in file.parts or "tests" in file.parts:
                continue
            yield f"{site}/{file}", f"{home}/{file}"


def _libraries_of(paths: list[str]) -> set[str]:
    """All shared libraries that these files load, as the machine's own linker finds them."""
    done = subprocess.run(
        ["ldd", *paths],
        capture_output=True,
        text=True,
        timeout=_LDD_SECONDS,
        check=False,  # it fails for a program without libraries
    )
    # "libc.so.6 => /lib/libc.so.6 (0x…)", and "/lib64/ld-linux-x86-64.so.2 (0x…)"
    found = re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", done.stdout, re.MULTILINE)
    return {os.path.normpath(path) for path in found}


def _place(root: Path, source: str, path: str) -> None:
    """Copy a file's contents to its path in the root. A link to it elsewhere is a file there;
    one that leads to no regular file is left out."""
    if not os.path.isfile(source):
        return
    folder = os.path.realpath(os.path.dirname(path))
    target = root / folder.lstrip("/") / os.path.basename(path)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    # Its time stays, or compiled modules would count as old; its owner and mode do not.
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    target.chmod(0o755 if status.st_mode & 0o100 else 0o644)
