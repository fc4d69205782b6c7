"""No Docker: the same button and the same tool over the embedded engine; and what the plugins
fetch from an address when an administrator has asked for it."""

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox_core.engines.runsc_download import downloaded_runsc
from tests.e2e.conftest import Person
from tests.e2e.runs import BUTTON, FUNCTION, TOOL, fenced, run, valves, wait_until
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel, ToolCall

Picture = Callable[[ChatPage, str], None]

PLOT = """\
import matplotlib.pyplot as plt

plt.plot([1, 4, 2])
plt.title("Without Docker")
plt.show()
print(open("/proc/version").read().split()[2])
"""


@pytest.fixture(scope="module")
def runsc_path() -> str:
    runsc = os.environ.get("RUN_CODE_RUNSC") or shutil.which("runsc")
    assert runsc, "RUN_CODE_RUNSC names no runsc, and none is in PATH"
    return runsc


@pytest.fixture(scope="module", autouse=True)
def embedded(plugins: None, admin: Person, runsc_path: str) -> Iterator[None]:
    """Both plugins start gVisor's program themselves; the engine's address leads nowhere."""
    with valves(
        admin.client,
        backend="runsc",
        runsc_path=runsc_path,
        images_folder=os.environ.get("RUN_CODE_IMAGES_FOLDER", ""),
        docker_host="unix:///nowhere.sock",
        warm_sandboxes=0,
    ):
        yield


def test_plot_shows_live_after_reload_and_in_the_next_turn(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply(fenced(PLOT)))
    member_page.new_chat(MODEL)
    member_page.ask("a plot please")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_answer_text("4.4.0")
    picture(member_page, "live")
    member_page.wait_for_pictures(1)

    member_page.reload()
    assert "4.4.0" in member_page.answer_text()
    member_page.wait_for_pictures(1)

    member_page.ask("and now?")
    assert model.sees("4.4.0")


def test_tool_gives_the_result_to_the_model(
    member: Person, model: ScriptedModel
) -> None:
    model.script(Reply(tool_calls=(ToolCall("run_code", {"code": "print(6 * 7)"}),)))
    member.client.ask("use the tool", tool_ids=[TOOL.id])
    assert "42" in model.last_messages()[-1]["content"]


@pytest.fixture
def mirror(runsc_path: str) -> Iterator[tuple[str, list[str]]]:
    """(address, paths that were asked for): has gVisor's program and a newer plugin."""
    asked: list[str] = []
    program = Path(runsc_path).read_bytes()

    class Mirror(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            newer = b'"""\ntitle: Run code\nversion: 98.7.6\n"""\n'
            self.wfile.write(program if self.path == "/runsc" else newer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_gvisors_program_is_downloaded_and_used(
    admin: Person, member: Person, runsc_path: str, mirror: tuple[str, list[str]]
) -> None:
    address, asked = mirror
    sha512 = hashlib.sha512(Path(runsc_path).read_bytes()).hexdigest()
    folder = downloaded_runsc(sha512).parent
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with valves(
            admin.client,
            runsc_path="",
            runsc_sha512=sha512,
            runsc_address=f"{address}/runsc",
        ):
            wait_until(
                lambda: "42" in run(member.client, "print(6 * 7)"),
                60,
                "gVisor's program was not downloaded",
            )
        assert asked == ["/runsc"]
        assert os.access(folder / "runsc", os.X_OK)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # others were downloaded before
            folder.parent.rmdir()


def test_an_administrator_is_told_once_of_a_newer_version(
    admin: Person,
    admin_page: ChatPage,
    member: Person,
    model: ScriptedModel,
    mirror: tuple[str, list[str]],
) -> None:
    address, asked = mirror
    with valves(admin.client, FUNCTION, update_address=f"{address}/run_code.py"):
        run(member.client, "print(1)")
        assert asked == []
        model.script(Reply(fenced("print(6 * 7)")))
        admin_page.new_chat(MODEL)
        admin_page.ask("a program please")
        assert admin_page.press_and_wait(BUTTON) == 200
        admin_page.wait_for_text("Run code 98.7.6 is out.")
        assert admin_page.press_and_wait(BUTTON) == 200
    assert asked == ["/run_code.py"]
