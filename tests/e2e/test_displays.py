"""Figures, images and rich values: seen under the answer, kept, and told to the model."""

from collections.abc import Callable

import pytest

from tests.e2e.conftest import Person
from tests.e2e.file_runs import call, run_in, told_by_tool, wait_for_files
from tests.e2e.runs import BUTTON, TOOL, fenced
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel

Picture = Callable[[ChatPage, str], None]

pytestmark = pytest.mark.usefixtures("plugins")

PLOTS = """\
import matplotlib.pyplot as plt
plt.plot([1, 2, 3]); plt.title("温度 °C 🧪"); plt.show()
plt.figure(); plt.bar(["a", "b"], [3, 4]); plt.savefig("bars.png"); plt.show()
"""
CHART = """\
class Chart:
    def _repr_html_(self):
        return '''<p id="drawn" style="height: 250px">to be drawn</p><script>
        document.getElementById("drawn").textContent = "drawn in " + origin</script>'''
    def __repr__(self):
        return "Chart of nothing"
Chart()
"""
FRAME = 'import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", "y"]})\n'


def test_plots_shown_and_saved_are_two_pictures(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply(fenced(PLOTS)))
    member_page.new_chat(MODEL)
    member_page.ask("plot it")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_pictures(2)
    member_page.action_button(BUTTON).scroll_into_view_if_needed()
    picture(member_page, "plots")
    shown = member_page.answer_text()
    assert "Warning" not in shown
    member_page.reload()
    member_page.wait_for_pictures(2)
    assert member_page.answer_text() == shown


def test_the_model_is_told_names_and_sizes(
    member: Person, model: ScriptedModel
) -> None:
    model.script(call(PLOTS), Reply("There you are."))
    chat_id, _ = member.client.ask("plot it", tool_ids=[TOOL.id])
    (told,) = told_by_tool(model)
    assert "figure-1.png (" in told
    assert "bars.png (" in told
    assert "figure-2" not in told
    assert len(told.encode()) < 1024
    assert "![figure-1.png]" in wait_for_files(member.client, chat_id, "figure")


def test_html_is_drawn_in_a_frame_without_an_origin(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    model.script(Reply(fenced(CHART)))
    member_page.new_chat(MODEL)
    member_page.ask("draw it")
    assert member_page.press_and_wait(BUTTON) == 200
    for _ in range(2):
        frame = member_page.page.frame_locator("[id$='embeds-container'] iframe")
        drawn = frame.frame_locator("iframe").locator("#drawn")
        drawn.wait_for(timeout=20_000)
        assert drawn.text_content() == "drawn in null"
        picture(member_page, "embed")
        member_page.wait_for_answer_text("value-1.html")
        member_page.reload()
    assert member_page.requests_elsewhere() == []


def test_a_frame_is_a_table_for_both(member: Person, model: ScriptedModel) -> None:
    _, shown = run_in(member.client, model, FRAME)
    assert "Value:\n\n```text\n   a  b\n0  1  x\n1  2  y\n```" in shown
    model.script(call(FRAME), Reply("done"))
    member.client.ask("a table", tool_ids=[TOOL.id])
    assert "value:\n   a  b\n0  1  x\n1  2  y" in told_by_tool(model)[0]


def test_figures_are_no_inputs_of_the_next_run(
    member: Person, model: ScriptedModel
) -> None:
    listing = "import os; print(sorted(os.listdir('.')))"
    model.script(call(PLOTS), call(listing), Reply("done"))
    member.client.ask("plot, then list", tool_ids=[TOOL.id])
    assert "['bars.png', 'main.py']" in told_by_tool(model)[1]
