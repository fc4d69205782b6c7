"""Data folders in real sandboxes: read, never written, and nothing of the host behind them."""

import os
import shutil
import socket
import stat
import subprocess
import threading

import pytest

from sandbox_core.data_folders import DataFolders, parse_data_folders
from sandbox_core.errors import InvalidRequest
from sandbox_core.outcome import Outcome
from sandbox_core.pool import PoolSettings
from sandbox_core.runner import LocalRunner
from tests.contract.runners import WarmRunner
from tests.contract.runs import describe, run

READS = """
import os
import shutil
print(sorted(os.listdir("/data/sales")), open("/data/sales/a/b.csv").read())
print(sorted(os.listdir("/data")))
"""
WRITES = """
import os
import shutil
for action in (
    lambda: open("/data/sales/new", "w"),
    lambda: open("/data/sales/a/b.csv", "a"),
    lambda: os.unlink("/data/sales/a/b.csv"),
    lambda: os.rename("/data/sales/a", "/data/sales/c"),
    lambda: os.chmod("/data/sales/a/b.csv", 0o777),
    lambda: os.mkdir("/data/sales/new"),
    lambda: os.mkfifo("/data/sales/fifo"),
    lambda: os.utime("/data/sales/a/b.csv"),
    lambda: os.mkdir("/data/other"),
):
    try:
        action()
        print("DONE")
    except OSError as error:
        print(error.errno)
"""
OPENS = """
import os, socket
for name in ("device", "passwd"):
    try:
        print(name, "READ", open("/data/sales/" + name).read(20))
    except OSError as error:
        print(name, error.errno)
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(5)
try:
    connection.connect("/data/sales/late.sock")
    print("socket OPEN")
except OSError as error:
    print("socket", error.errno)
print("uid after setuid:", os.popen("/data/sales/whoami -u 2>&1").read().strip())
print(open("/data/sales/mount/inner").read())
open("/data/sales/mount/inner", "w")
"""
READ_ONLY, NOT_ALLOWED, DENIED = 30, 1, 13


@pytest.fixture
def sales(tmp_path):
    """A folder of the host that everybody may read."""
    os.umask(0o022)
    folder = tmp_path / "sales"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "b.csv").write_text("x,1")
    for part in (folder, *folder.parents):
        if part.owner() == "root" and len(part.parts) > 2:
            part.chmod(part.stat().st_mode | 0o005)
    return folder


@pytest.fixture
def runner_with(engine, image):
    """Makes runners that show this folder as /data/sales."""
    made = []

    def make(folder, pool=None):
        folders = DataFolders(parse_data_folders(f"sales={folder}"))
        made.append(LocalRunner(engine, image, pool=pool, data_folders=folders))
        return made[-1]

    yield make
    for runner in made:
        runner.close()


@pytest.mark.parametrize("pool", [None, PoolSettings(size=1)], ids=["cold", "warm"])
def test_a_program_reads_the_folder(runner_with, sales, pool):
    runner = runner_with(sales, pool)
    result = run(WarmRunner(runner) if pool else runner, READS)
    assert str(result.stdout) == "['a'] x,1\n['sales']\n", describe(result)
    assert result.files == ()


def bind(listener, path, monkeypatch):
    """Bind a Unix socket from within its folder: the path may have 107 characters."""
    monkeypatch.chdir(path.parent)
    listener.bind(path.name)


def test_a_program_cannot_write_there_even_where_everybody_may(runner_with, sales):
    for path in (sales, sales / "a", sales / "a" / "b.csv"):
        path.chmod(0o777)
    result = run(runner_with(sales), WRITES)
    errors = [int(line) for line in str(result.stdout).split()]
    assert len(errors) == 9, describe(result)
    assert set(errors) <= {READ_ONLY, NOT_ALLOWED, DENIED}, describe(result)
    assert [path.name for path in sales.rglob("*")] == ["a", "b.csv"]
    assert (sales / "a" / "b.csv").read_text() == "x,1"


def test_nothing_of_the_host_is_behind_it(runner_with, sales, monkeypatch):
    """A device, a link, a program with setuid, and a socket that came after the folder was
    looked at. What is mounted within is read-only too."""
    runner = runner_with(sales)
    assert run(runner, READS).outcome is Outcome.OK
    os.mknod(sales / "device", stat.S_IFCHR | 0o666, os.makedev(1, 11))  # kmsg
    (sales / "passwd").symlink_to(sales.parent / "secret")
    (sales / "device").chmod(0o666)
    (sales.parent / "secret").write_text("of the host")
    shutil.copyfile("/usr/bin/id", sales / "whoami")
    (sales / "whoami").chmod(0o4755)
    (sales / "mount").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    bind(listener, sales / "late.sock", monkeypatch)
    (sales / "late.sock").chmod(0o777)
    listener.listen()
    served = threading.Thread(target=_accept, args=(listener,), daemon=True)
    served.start()
    subprocess.run(
        ["mount", "-t", "tmpfs", "none", str(sales / "mount")], check=True, timeout=20
    )
    try:
        (sales / "mount" / "inner").write_text("of another mount")
        (sales / "mount" / "inner").chmod(0o666)
        result = run(runner, OPENS)
    finally:
        subprocess.run(["umount", str(sales / "mount")], check=True, timeout=20)
        listener.close()
    lines = str(result.stdout).splitlines()
    assert len(lines) == 5, describe(result)
    for line in lines[:3]:
        assert line.split()[1].isdigit(), describe(result)
    assert lines[3] == "uid after setuid: 1000"
    assert lines[4] == "of another mount"
    assert "Read-only file system" in str(result.stderr), describe(result)


def _accept(listener):
    try:
        listener.accept()
    except OSError:
        return


def test_a_bad_folder_stops_every_run_with_words(runner_with, sales, monkeypatch):
    runner = runner_with(sales)
    with socket.socket(socket.AF_UNIX) as listener:
        bind(listener, sales / "s", monkeypatch)
        with pytest.raises(InvalidRequest, match="it holds a socket"):
            run(runner, READS)
    (sales / "s").unlink()
    assert run(runner, READS).outcome is Outcome.OK
