"""The corpus: programs that the launcher must run as plain python3 does, and how to compare."""

import re
from dataclasses import dataclass
from pathlib import Path

from sandbox_core.guest_program import display_program
from sandbox_core.payload import LAUNCHER_SOURCE
from tests.launcher.runner import COLD, WARM

CORPUS = Path(__file__).parent / "corpus"
# What a request to the runner holds in every way.
LAUNCHER_TEXTS = {"launcher": LAUNCHER_SOURCE, "display": display_program()}
# Loaded by many programs, and by each other; `multiprocessing` keeps a hold of `__main__`.
STANDARD_MODULES = [
    "json",
    "decimal",
    "random",
    "multiprocessing",
    "asyncio",
    "logging",
]
LIBRARIES = ["numpy", "pandas", "matplotlib.pyplot"]


@dataclass(frozen=True)
class Difference:
    """One unavoidable difference: why, where, and the pattern that finds all of it."""

    reason: str
    pattern: str
    since: tuple[int, int] = (3, 9)


LAUNCHER_FRAME = r' *File "<string>", line \d+,? in <module>\n(    exec.*\n)?'
ONE_MORE_FRAME = "the launcher's frame is below the program's"
DIFFERENCES = {
    "caller_of_module": Difference(ONE_MORE_FRAME, r"True|False"),
    "error_recursion": Difference(ONE_MORE_FRAME, r"\d+ more times"),
    "recursion_depth": Difference(ONE_MORE_FRAME, r"\d+"),
    "stack": Difference(ONE_MORE_FRAME, LAUNCHER_FRAME + r"|'<module>', "),
    "stack_dump": Difference(ONE_MORE_FRAME, LAUNCHER_FRAME),
    "warning_beyond_stack": Difference(ONE_MORE_FRAME, r"^\S+:\d+: |\n  exec.*"),
    "stderr_closed": Difference(
        "the interpreter's last words hold a reference count",
        r"refcount : \d+",
        (3, 11),
    ),
    "loaded_modules": Difference(
        "the launcher's modules; from 3.13 on linecache, which -c itself imports",
        r"'(_ast|atexit|linecache)', ",
    ),
    "warning_resource": Difference(
        "the last value lives until the program has ended",
        r"^\S+:\d+: (?=ResourceWarning)|\n  open.*",
    ),
}
NOT_WARM = {
    "loaded_modules": "what is preloaded is loaded",
    "shadow_json": "a file beside the program has a preloaded module's name: run it cold",
    "shadow_traceback": "the same",
}
# Addresses are other ones in any two runs.
ADDRESS = re.compile(r"\b0x[0-9a-f]+")


def _files_of(path: Path) -> dict[str, str]:
    """A program's files as latin-1 text by name; the program itself is main.py."""
    if not path.is_dir():
        return {"main.py": path.read_bytes().decode("latin-1")}
    return {
        file.relative_to(path).as_posix(): file.read_bytes().decode("latin-1")
        for file in path.rglob("*")
        if file.is_file() and file.parent.name != "__pycache__"
    }


def _programs_in(folder: Path) -> dict[str, dict[str, str]]:
    """Name and files of each program. A .txt is one that no formatter can read as Python."""
    return {
        path.stem: _files_of(path)
        for path in sorted(folder.iterdir())
        if path.suffix in (".py", ".txt") or (path / "main.py").exists()
    }


PROGRAMS = _programs_in(CORPUS)
# These use the LIBRARIES, which only the sandbox image is sure to have.
LIBRARY_PROGRAMS = _programs_in(CORPUS / "libraries")
# Loading the LIBRARIES takes more than a second in the sandbox, so not every program waits for
# it: those that a thread, handler, filter or setting of a library could change.
LIBRARY_SAMPLE = [
    "asyncio_run",
    "atexit_order",
    "decimal_context",
    "destructors_at_end",
    "environment",
    "error_nested",
    "exit_with_thread",
    "fork_and_wait",
    "interpreter_flags",
    "logging_to_stderr",
    "multiprocessing_forkserver",
    "open_descriptors",
    "process_state",
    "random_seeded",
    "stream_settings",
    "warning_syntax",
    "warnings_shown",
]


def ways_of(name: str) -> list[str]:
    """The launcher's ways in which this program can be compared."""
    return [COLD] if name in NOT_WARM else [COLD, WARM]


def compare(name: str, version: tuple[int, int], plain: dict, launched: dict) -> None:
    """Fail unless both results are the same, byte for byte, but for the listed difference."""
    difference = DIFFERENCES.get(name)
    expected, got = _comparable(plain), _comparable(launched)
    if difference and version >= difference.since:
        assert got != expected, f"no difference any more: {difference.reason}"
        got, expected = (_without(difference, result) for result in (got, expected))
    assert got == expected


def _comparable(result: dict) -> dict:
    streams = {key: ADDRESS.sub("0x", result[key]) for key in ("stdout", "stderr")}
    return {"status": result["status"], **streams}


def _without(difference: Difference, result: dict) -> dict:
    streams = {
        key: re.sub(difference.pattern, "", result[key], flags=re.MULTILINE)
        for key in ("stdout", "stderr")
    }
    return {**result, **streams}
