"""Runs programs in a given way, on this machine or, sent as text, inside a sandbox.

As a program it reads one JSON request from stdin and writes one JSON list of results to stdout.
Only the standard library, Python >= 3.9: the sandbox has nothing else of this project.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys

# The ways to run a program: `python3 main.py`, the launcher without and with modules preloaded.
PLAIN, COLD, WARM = "plain", "cold", "warm"
TIMEOUT_SECONDS = 60
STDIN = "first line\nsecond liné\n".encode()
ARGUMENTS = ["one", "two words", "", "ünï", os.fsdecode(b"\xff"), "--flag=x=y"]
ADDED_ENVIRONMENT = {"GREETING": "hello = wörld\nand more", "TZ": "ABC-3", "EMPTY": ""}


def environment(request, scratch):
    """The environment of a program, apart from what the release adds."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": scratch,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": scratch,
        **request.get("environment", {}),
    }


def write_files(files, folder):
    """Write the program's files, given as latin-1 text by name."""
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode("latin-1"))


def release(path, value_path):
    """The release message that starts the program of a waiting launcher."""
    fields = [f"path={path}", f"value={value_path}"]
    fields += [f"arg={argument}" for argument in ARGUMENTS]
    fields += [f"env={name}={value}" for name, value in ADDED_ENVIRONMENT.items()]
    return b"".join(os.fsencode(field) + b"\0" for field in fields) + b"\0"


def empty_folders(request):
    """New work and scratch folders in the request's folder, which is emptied."""
    work = os.path.join(request["folder"], "work")
    scratch = os.path.join(request["folder"], "scratch")
    shutil.rmtree(request["folder"], ignore_errors=True)
    os.makedirs(work)
    if "font_cache" in request:
        shutil.copytree(request["font_cache"], scratch)
    else:
        os.makedirs(scratch)
    return work, scratch


def start(command, work, env, pass_fds=()):
    """Start a command as the guest does, as far as it matters to Python."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        command, cwd=work, env=env, pass_fds=pass_fds, start_new_session=True, **streams
    )


def start_launcher(request, work, scratch):
    """Start the launcher; returns its process and the pipe's end that takes the release.

    One that preloads has said then that it is ready.
    """
    preload = request.get("preload", [])
    read_end, write_end = os.pipe()
    ready, ready_end = os.pipe()
    high = fcntl.fcntl(read_end, fcntl.F_DUPFD_CLOEXEC, 200)
    os.dup2(ready_end, high + 1, inheritable=False)
    os.close(read_end)
    os.close(ready_end)
    command = [request["python"], "-c", request["launcher"], str(high)]
    command += [request["display"], os.path.join(scratch, "displays")]
    command += preload
    env = environment(request, scratch)
    process = start(command, work, env, pass_fds=[high, high + 1][: 1 + bool(preload)])
    os.close(high)
    os.close(high + 1)
    with open(ready, "rb") as pipe:
        assert pipe.read() == b"r" * bool(preload)
    return process, write_end


def start_program(request, files, work, scratch, value_path):
    """Start the program in the request's way; the launcher's value goes to value_path."""
    path = os.path.join(work, "main.py")
    if request["way"] == PLAIN:
        write_files(files, work)
        env = {**environment(request, scratch), **ADDED_ENVIRONMENT}
        return start([request["python"], path, *ARGUMENTS], work, env)
    if request["way"] == COLD:
        write_files(files, work)
    process, release_end = start_launcher(request, work, scratch)
    if request["way"] == WARM:
        write_files(files, work)
    with open(release_end, "wb") as pipe:
        pipe.write(release(path, value_path))
    return process


def read_displays(folder):
    """What the program showed, in order: (name, content as latin-1 text)."""
    shown = []
    for name in sorted(os.listdir(folder)) if os.path.exists(folder) else []:
        with open(os.path.join(folder, name), "rb") as file:
            shown.append((name, file.read().decode("latin-1")))
    return shown


def run(request, files):
    """Run one program; returns its status, stdout, stderr, the value file's text or None, and
    what it showed.

    ``request``: "python", "launcher" and "display" (the texts of launcher.py and
    launcher_display.py), "way", "folder" (it gets emptied), and perhaps
    "preload" (names of modules), "environment" (more of it), "font_cache" (a folder of
    matplotlib's). Raises TimeoutExpired when the program does not end.
    """
    work, scratch = empty_folders(request)
    value_path = os.path.join(scratch, "value.json")
    process = start_program(request, files, work, scratch, value_path)
    try:
        stdout, stderr = process.communicate(STDIN, timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    value = None
    if os.path.exists(value_path):
        with open(value_path, encoding="utf-8") as file:
            value = file.read()
    return {
        "status": process.returncode,
        "stdout": stdout.decode("latin-1"),
        "stderr": stderr.decode("latin-1"),
        "value": value,
        "displays": read_displays(os.path.join(scratch, "displays")),
    }


def main():
    """Run each program of the request read from stdin, and print the results."""
    request = json.load(sys.stdin)
    json.dump([run(request, files) for files in request["programs"]], sys.stdout)


if __name__ == "__main__":
    main()
