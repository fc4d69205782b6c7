"""No Docker: the same button and the same tool over the embedded engine."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.conftest import Person
from tests.e2e.runs import BUTTON, TOOL, fenced, valves
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


@pytest.fixture(scope="module", autouse=True)
def embedded(plugins: None, admin: Person) -> Iterator[None]:
    """Both plugins start gVisor's program themselves; the engine's address leads nowhere."""
    runsc = os.environ.get("RUN_CODE_RUNSC") or shutil.which("runsc")
    assert runsc, "RUN_CODE_RUNSC names no runsc, and none is in PATH"
    with valves(
        admin.client,
        backend="runsc",
        runsc_path=runsc,
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
