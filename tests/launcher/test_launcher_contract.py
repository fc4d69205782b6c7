"""What the guest relies on: the last value, the release, and a silent preload."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.launcher.interpreters import Interpreter, find_interpreters
from tests.launcher.programs import LAUNCHER_TEXTS
from tests.launcher.runner import COLD, WARM, empty_folders, run, start_launcher

LONG = 64 * 1024
NOTHING = {"status": 0, "stdout": "", "stderr": ""}

SHOWN = {
    "1 + 1": "2",
    "x = [1]\nx": "[1]",
    "x = 1\n(\n  x,\n)  # a tuple; not hidden\n\n# the end;": "(1,)",
    "len('a;#b')": "4",
    "len('ä;')": "2",
    "x = 'quote \" slash \\\\ é 🎉 \\n'\nx": "'quote \" slash \\\\ é 🎉 \\n'",
    "from __future__ import annotations\nabs(-3)": "3",
    "def f():\n    return {'a': None}\nf()": "{'a': None}",
    "class C:\n    def __repr__(self): return '\\x00\\x1f'\nC()": "\x00\x1f",
    "class C:\n    def __repr__(self): return '\\ud800'\nC()": "?",
    "(y := 7)": "7",
    "f'{1}'": "'1'",
    "# coding: latin-1\n'\xe9'.lower()": "'ã©'",
    "import numbers\nnumbers.Number in int.__mro__": "False",
    "'x' * 200_000": "'" + "x" * (LONG - 1) + " … (cut)",
    "[0] * 10_000_000": ("[" + "0, " * LONG)[:LONG] + " … (cut)",
}
NOT_SHOWN = [
    "",
    "x = 1",
    "'only a string'",
    "5",
    "None",
    "[].append(1)",
    "x = 1\nx;",
    "x = 1\n(x) ; # why\n\n",
    "if True:\n    1 + 1",
    "import asyncio\nasync def f(): pass\nc = f()\nc.close()\nc",
]


@pytest.fixture(params=find_interpreters(), ids=str)
def interpreter(request) -> Interpreter:
    return request.param


@pytest.fixture
def launch(interpreter: Interpreter, tmp_path: Path):
    """Run a program's text in a way; returns its result with the value decoded."""

    def launch(text: str, way: str = COLD, preload: tuple[str, ...] = ()) -> dict:
        request = {
            "python": interpreter.path,
            **LAUNCHER_TEXTS,
            "way": way,
            "preload": preload,
            "folder": str(tmp_path / "run"),
        }
        result = run(request, {"main.py": text.encode().decode("latin-1")})
        value, displays = result.pop("value"), result.pop("displays")
        result["value"] = value and json.loads(value)["text"]
        return {**result, "displays": displays} if displays else result

    return launch


def test_value_is_the_repr_of_the_last_bare_expression(launch) -> None:
    for text, value in SHOWN.items():
        assert launch(text) == {**NOTHING, "value": value}, text


def test_no_value_of_other_statements_literals_and_none(launch) -> None:
    for text in NOT_SHOWN:
        assert launch(text) == {**NOTHING, "value": None}, text


def test_value_is_taken_when_threads_have_ended_and_before_atexit(launch) -> None:
    program = """
import atexit, threading, time
steps = []
def work():
    time.sleep(0.2)
    steps.append("thread")
threading.Thread(target=work).start()
atexit.register(lambda: (steps.append("atexit"), print(steps)))
steps
"""
    assert launch(program) == {
        **NOTHING,
        "stdout": "['thread', 'atexit']\n",
        "value": "['thread']",
    }


def test_the_rich_form_of_a_value_is_shown_beside_its_text(launch) -> None:
    program = """
class C:
    def _repr_svg_(self):
        print("drawing")
        return "<svg>é</svg>"
    def _repr_markdown_(self): return "**text**"
C()
"""
    assert launch(program) == {
        **NOTHING,
        "value": "**text**",
        "displays": [("001-value.svg", "<svg>Ã©</svg>")],
    }


def test_a_rich_form_that_fails_leaves_the_text(launch) -> None:
    endings = (
        "1 / 0",
        "raise SystemExit(3)",
        "[0 for _ in iter(int, 1)]",
        "return [1]",
        "return ''",
    )
    for ending in endings:
        program = f"class C:\n  def _repr_png_(self): {ending}\n"
        program += "  _repr_markdown_ = _repr_html_ = _repr_png_\n"
        program += "  def __repr__(self): return 'text'\nC()"
        assert launch(program) == {**NOTHING, "value": "text"}, ending


@pytest.mark.parametrize(
    "body",
    [
        "raise SystemExit(9)",
        "raise KeyboardInterrupt",
        "return 3",
        "while True: pass",
        "import time; time.sleep(60)",
        "return self.__repr__()",
    ],
)
def test_a_repr_that_fails_or_does_not_end_changes_nothing(launch, body: str) -> None:
    program = f"""
class C:
    def __repr__(self):
        print("printed by repr")
        {body}
C()
"""
    assert launch(program) == {**NOTHING, "value": None}


def test_alarms_of_the_program_stay(launch) -> None:
    program = """
import atexit, signal
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 500)
def look():
    print(signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0] > 400)
atexit.register(look)
1 + 1
"""
    result = launch(program)
    assert result["value"] == "2"
    assert result["stdout"].endswith(" True\n")
    assert "SIG_IGN" in result["stdout"] or result["stdout"].startswith("1 ")


def test_only_the_program_itself_has_a_value(launch) -> None:
    fork = "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\npid == 0"
    assert launch(fork) == {**NOTHING, "value": "False"}
    for ending in ("1 / 0", "raise SystemExit(3)", "import os; os._exit(0)"):
        assert launch(f"{ending}\n1 + 1")["value"] is None


def test_spawned_children_have_none(launch) -> None:
    program = """
import multiprocessing, os
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=print, args=("child",))
    process.start()
    process.join()
__name__
"""
    expected = {**NOTHING, "stdout": "child\n", "value": "'__main__'"}
    assert launch(program) == expected


def test_value_file_that_cannot_be_written_is_no_error(launch) -> None:
    program = "import os\nos.rename(os.environ['HOME'], 'elsewhere')\n1 + 1"
    assert launch(program) == {**NOTHING, "value": None}


def test_preload_is_silent_and_survives_what_fails(launch) -> None:
    preload = ("this", "no_such_module_anywhere", "json.no_such_part", "json")
    program = "import sys\nprint('this' in sys.modules, 'json' in sys.modules)"
    result = launch(program, WARM, preload)
    assert result == {**NOTHING, "stdout": "True True\n", "value": None}


@pytest.mark.parametrize("message", [b"", b"path=/nowhere/main.py\0"])
def test_without_a_release_it_leaves_quietly(
    interpreter: Interpreter, tmp_path: Path, message: bytes
) -> None:
    request = {"python": interpreter.path, **LAUNCHER_TEXTS, "folder": str(tmp_path)}
    process, release_end = start_launcher(request, *empty_folders(request))
    with open(release_end, "wb") as pipe:
        pipe.write(message)
    assert process.communicate(timeout=30) == (b"", b"")
    assert process.returncode == 0


def test_missing_program_is_reported_as_python_does(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    request = {
        "python": interpreter.path,
        **LAUNCHER_TEXTS,
        "way": COLD,
        "folder": str(tmp_path),
    }
    result = run(request, {})
    path = os.path.join(tmp_path, "work", "main.py")
    plain = subprocess.run([interpreter.path, path], capture_output=True, text=True)
    assert (result["status"], result["stderr"]) == (2, plain.stderr)
