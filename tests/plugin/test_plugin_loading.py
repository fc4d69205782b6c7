"""What loading does, and what a lack of something does, the way Open WebUI loads plugins."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.owui.server import open_webui_venv
from tests.plugin.clicks import press
from tests.plugin.conftest import ARTIFACTS, ROOT

LOADER = ROOT / "tests/plugin/owui_loader.py"
BLOCK = "```python\nprint(7 * 6)\n```"

NOTHING_STARTED = """
import os, sys, threading
text = open({path!r}, encoding="utf-8").read()
before = (set(os.listdir("/proc/self/fd")), set(os.listdir({folder!r})))
again = load_plugin(text, {family!r})
assert before == (set(os.listdir("/proc/self/fd")), set(os.listdir({folder!r})))
assert threading.active_count() == 1, threading.enumerate()
assert "run_code_runtime" not in sys.modules
assert "docker" not in sys.modules and "markdown_it" not in sys.modules
assert not [name for name in sys.modules if name.startswith(("function_", "tool_"))]
print("nothing", kind, sorted(frontmatter))
"""

FIVE_SAVES = """
import asyncio, sys, threading
texts = {{family: open(path, encoding="utf-8").read() for family, path in {paths!r}.items()}}

async def use(instance, family):
    if family == "tool":
        return await instance.run_code("print(7 * 6)", __chat_id__="temporary:1")
    message = {{"id": "m", "role": "assistant", "content": {block!r}}}
    body = {{"chat_id": "temporary:1", "id": "m", "messages": [message]}}
    return str(await instance.action(body))

async def save_and_use():
    for _ in range(5):
        for family, text in texts.items():
            assert "42" in await use(load_plugin(text, family).instance, family)

asyncio.run(save_and_use())
board = sys.modules["run_code_runtime"]
names = [thread.name for thread in threading.enumerate()]
assert len(board.runtimes) == 1, board.runtimes
assert names.count("run-code-reaper") == 1, names
assert not board.in_flight and not board.tasks
print("one runtime")
"""


def probe(family, program):
    """Runs a program in a fresh interpreter into which a plugin was loaded."""
    return subprocess.run(
        [sys.executable, "-I", LOADER, family, ARTIFACTS[family]],
        input=program,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("family", ARTIFACTS)
def test_loading_starts_nothing(family, tmp_path):
    values = {"path": str(ARTIFACTS[family]), "family": family}
    done = probe(family, NOTHING_STARTED.format(folder=str(tmp_path), **values))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nothing")
    assert "requirements" in done.stdout


def test_five_saves_of_both_leave_one_runtime():
    paths = {family: str(path) for family, path in ARTIFACTS.items()}
    done = probe("tool", FIVE_SAVES.format(paths=paths, block=BLOCK))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "one runtime\n"


def test_changed_valves_end_the_threads_of_the_old_runtime(action):
    before = set(threading.enumerate())

    def ours():
        names = (thread.name for thread in set(threading.enumerate()) - before)
        return sorted(name for name in names if name.startswith("run-code"))

    for most in (3, 5, 6, 2):
        action.valves = action.Valves(max_concurrent_runs=most, warm_sandboxes=0)
        assert "\n42\n" in press(action, BLOCK).text
    deadline = time.monotonic() + 15
    while ours().count("run-code-reaper") > 1 or len(ours()) > 3:
        assert time.monotonic() < deadline, ours()
        time.sleep(0.1)


def test_the_docker_package_is_missing(action, monkeypatch):
    monkeypatch.setitem(sys.modules, "docker", None)
    action.valves = action.Valves(max_waiting_runs=7)  # a runtime of its own
    text = press(action, BLOCK).text
    assert "**Run code** · Python · could not run\n" in text
    assert "The Python package “docker” is missing" in text
    assert text.count("\n") == 4
    monkeypatch.undo()
    assert "\n42\n" in press(action, BLOCK).text  # and it is looked for again


def test_the_markdown_package_is_missing(action, monkeypatch):
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    pressed = press(action, BLOCK)
    assert pressed.answer is None
    assert pressed.statuses == [
        "The package markdown-it-py is missing on this server: ask your administrator to "
        "install it, then try again."
    ]
    monkeypatch.undo()
    assert "\n42\n" in press(action, BLOCK).text


@pytest.mark.parametrize("family", ARTIFACTS)
def test_open_webui_itself_loads_it(family, tmp_path):
    program = (
        "import asyncio, sys\n"
        "from open_webui.utils import plugin\n"
        f"load = plugin.load_{family}_module_by_id\n"
        "text = open(sys.argv[1], encoding='utf-8').read()\n"
        "instance, *rest = asyncio.run(load('run_code', content=text))\n"
        "print(type(instance).__name__, instance.valves.timeout_seconds)\n"
    )
    done = subprocess.run(
        [open_webui_venv() / "bin/python", "-c", program, ARTIFACTS[family]],
        env={
            **os.environ,
            "DATA_DIR": str(tmp_path),
            "WEBUI_SECRET_KEY": "of this test alone",
            "ENABLE_PIP_INSTALL_FRONTMATTER_REQUIREMENTS": "false",
            "HF_HUB_OFFLINE": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    name = {"function": "Action", "tool": "Tools"}[family]
    assert done.stdout.splitlines()[-1] == f"{name} 30"
    assert not Path(ARTIFACTS[family].parent / "__pycache__").exists()
