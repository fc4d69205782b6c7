"""Files in a chat: attached, read by programs, made by programs, shown, kept, downloaded."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Person
from tests.e2e.file_runs import LINK, call, plain, run_in, told_by_tool, wait_for_files
from tests.e2e.runs import (
    BUTTON,
    FUNCTION,
    TOOL,
    fenced,
    result_of,
    valves,
    wait_until,
)
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import MODEL, Reply, ScriptedModel
from tests.owui.server import OpenWebUIServer

Picture = Callable[[ChatPage, str], None]

pytestmark = pytest.mark.usefixtures("plugins")

SALES = "month,amount\n" + "".join(
    f"2026-{month:02},{month * 10}\n" for month in range(1, 13)
)
CHART = """\
import matplotlib.pyplot as plt
import pandas as pd
sales = pd.read_csv("sales.csv")
by_month = sales.groupby("month")["amount"].sum()
by_month.plot.bar(title="Sales")
plt.savefig("chart.png", bbox_inches="tight")
by_month.to_csv("by_month.csv")
print(by_month.sum())
"""
LISTING = (
    "import os; print(sorted((n, os.path.getsize(n)) for n in os.listdir('.')"
    " if n != 'main.py'))"
)


def downloaded(page: ChatPage, number: int) -> tuple[str, bytes]:
    """The suggested name and the bytes of one link of the last answer."""
    links = page.page.locator("#response-content-container a[href*='attachment=true']")
    with page.page.expect_download(timeout=20_000) as waiting:
        links.nth(number).click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def test_an_attached_table_becomes_a_chart_under_the_answer(
    member: Person,
    member_page: ChatPage,
    open_page: Callable[[Person], ChatPage],
    model: ScriptedModel,
    picture: Picture,
    tmp_path: Path,
) -> None:
    sales = tmp_path / "sales.csv"
    sales.write_text(SALES)
    table = "\n[Your table](sandbox:/mnt/data/by_month.csv)\n"
    model.script(Reply(fenced(CHART) + table))
    member_page.new_chat(MODEL)
    member_page.attach(sales)
    member_page.ask("a chart by month, please")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_pictures(1)
    member_page.action_button(BUTTON).scroll_into_view_if_needed()
    picture(member_page, "live")
    shown = member_page.answer_text()
    assert "780" in shown

    member_page.reload()
    member_page.wait_for_pictures(1)
    assert member_page.answer_text() == shown
    name, data = downloaded(member_page, 0)
    assert name == "by_month.csv"
    assert data.decode().splitlines()[1] == "2026-01,10"

    other_device = open_page(member)
    other_device.open_chat(member_page.chat_id)
    other_device.wait_for_pictures(1)
    picture(other_device, "other-device")
    link = other_device.page.get_by_role("link", name="Your table")
    assert member.client.download(str(link.get_attribute("href"))) == data

    model.script(Reply(fenced("print(open('by_month.csv').read()[:5].upper())")))
    member_page.ask("and now?")
    assert model.sees("chart.png")
    assert member_page.press_and_wait(BUTTON) == 200
    member_page.wait_for_answer_text("MONTH")
    assert member_page.requests_elsewhere() == []


def test_a_tool_call_makes_a_chart_and_the_next_one_finds_it(
    member: Person, member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    sales = member.client.upload_file("sales.csv", SALES.encode(), "text/csv")
    model.script(
        call(CHART),
        call("import os; print(sorted(os.listdir()))"),
        Reply("See the chart, or [the table](sandbox:/mnt/data/by_month.csv)."),
    )
    chat_id, _ = member.client.ask("chart", tool_ids=[TOOL.id], files=[sales])
    text = wait_for_files(member.client, chat_id, "chart.png")
    first, second = told_by_tool(model)
    assert "chart.png (" in first
    assert "by_month.csv (148 bytes)" in first
    assert "['by_month.csv', 'chart.png', 'main.py', 'sales.csv']" in second
    assert len(first) < 1024
    assert "base64" not in text
    member_page.open_chat(chat_id)
    member_page.wait_for_pictures(1)
    picture(member_page, "opened")
    link = member_page.page.get_by_role("link", name="the table").last
    address = str(link.get_attribute("href"))
    assert member.client.download(address).startswith(b"month,amount")
    model.script()
    member.client.ask("what did you make?", chat_id=chat_id)
    assert model.sees("by_month.csv")


def test_R21_a_time_out_leaves_a_partial_file(
    member: Person, member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    code = (
        'import time\nopen("partial.csv", "w").write("a,b\\n1,2\\n")\ntime.sleep(999)'
    )
    with valves(member.client, FUNCTION, personal=True, timeout_seconds=2):
        chat_id, text = run_in(member.client, model, code)
    assert "timed out" in text
    assert "from a run that did not finish" in text
    assert ") · 8 bytes" in text
    member_page.open_chat(chat_id)
    assert downloaded(member_page, 0) == ("partial.csv", b"a,b\n1,2\n")
    picture(member_page, "opened")


def test_a_stopped_tool_call_leaves_its_files(
    member: Person, model: ScriptedModel
) -> None:
    code = "import time; open('partial.txt', 'w').write('half'); time.sleep(60)"
    model.script(call(code))
    chat_id, answer_id = member.client.start_turn("go", tool_ids=[TOOL.id])

    def has_begun() -> bool:
        message = member.client.chat(chat_id)["history"]["messages"].get(answer_id, {})
        history = message.get("statusHistory") or [{}]
        return str(history[-1].get("description", "")).startswith("Running")

    wait_until(has_begun, 20, "the program runs")
    time.sleep(2)
    member.client.stop_answer(chat_id)
    text = wait_for_files(member.client, chat_id, "partial.txt")
    assert "from a run that did not finish" in text
    assert member.client.download(LINK.findall(text)[0]) == b"half"


ODD = [
    "a b.txt",
    "q\"uote'.txt",
    "new\nline.txt",
    "-rf.txt",
    "u\u0308n.txt",
    "\u202egnp.exe",
    "100%25.txt",
    "<b>.txt",
    "](http:x).txt",
    "x" * 251 + ".txt",
    "CON",
    "a.tar.gz",
    "[a](b).md",
]


def test_F01_odd_names_are_shown_and_downloaded(
    member: Person, member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    """F01, and H11: the same view after a reload."""
    code = f'for n in {[*ODD, ".hidden"]!r}:\n    open(n, "w").write(n[:3])'
    chat_id, text = run_in(member.client, model, code)
    archive, *addresses = LINK.findall(text)
    served = [member.client.download(address) for address in addresses]
    assert sorted(served) == sorted(name[:3].encode() for name in ODD)
    assert member.client.download(archive)[:2] == b"PK"
    member_page.open_chat(chat_id)
    picture(member_page, "opened")
    shown = member_page.answer_text()
    assert "files.zip" in shown
    assert "\u202e" not in shown
    assert "(http:x).txt" in shown
    member_page.reload()
    assert member_page.answer_text() == shown
    names = {downloaded(member_page, number)[0] for number in range(1, len(ODD) + 1)}
    assert len(names) == len(ODD)
    assert {"a b.txt", "new_line.txt", "_CON", "a.tar.gz", "100%25.txt"} <= names
    assert not any(set('\n"<>:/\\|?*\u202e') & set(name) for name in names)


@pytest.mark.parametrize("way", ["button", "tool"])
def test_F04_attachments_have_their_own_names_and_bytes(
    server: OpenWebUIServer,
    member: Person,
    admin: Person,
    model: ScriptedModel,
    way: str,
) -> None:
    """F04; and F07: what is deleted, lost, too large, or someone else's is named."""
    client = member.client
    lost = client.upload_file("lost.txt", b"lost", "text/plain")
    (server.log.parent / "data" / "uploads" / f"{lost['id']}_lost.txt").unlink()
    first = client.upload_file("data (1).csv", b"x" * 120, "text/csv")
    gone = client.upload_file("gone.txt", b"gone", "text/plain")
    second = client.upload_file("data (1).csv", b"y" * 90, "text/csv")
    pdf = client.upload_file("paper.pdf", b"%PDF-1.4" + b"\0" * 92, "application/pdf")
    png = client.upload_file("dot.png", b"\x89PNG" + b"\0" * 66, "image/png")
    large = client.upload_file("large.bin", b"z" * (7 << 20))
    foreign = admin.client.upload_file("foreign.txt", b"secret", "text/plain")
    png = {**png, "type": "image", "url": png["id"]}
    model.script(Reply("ok"))
    chat_id, _ = client.ask("look", files=[first, gone])
    client.delete(f"/api/v1/files/{gone['id']}")
    model.script(call(LISTING) if way == "tool" else Reply(fenced(LISTING)))
    tools = [TOOL.id] if way == "tool" else []
    files = [second, pdf, png, large, foreign, lost]
    with valves(admin.client, work_folder_mb=8):
        _, answer = client.ask("again", chat_id=chat_id, files=files, tool_ids=tools)
        if way == "button":
            client.run_action(FUNCTION.id, chat_id, answer["id"])
            told = plain(result_of(client.message(chat_id)))
        else:
            (told,) = told_by_tool(model)
    sizes = {"data (1).csv": 120, "data (1)_2.csv": 90, "dot.png": 70, "paper.pdf": 100}
    assert str(sorted(sizes.items())) in told
    assert "Another file is called “data (1).csv” too; it is here as" in told
    missing = "is not in the work folder:"
    assert f"“gone.txt” {missing} it was deleted" in told
    assert f"“lost.txt” {missing} it could not be read" in told
    assert f"“foreign.txt” {missing} it belongs to someone else" in told
    assert f"“large.bin” {missing} there is no room in it for 7.0 MB" in told


def test_sound_can_be_played_and_a_page_is_only_downloaded(
    member: Person, member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    code = """\
import wave
with wave.open("beep.wav", "wb") as sound:
    sound.setnchannels(1); sound.setsampwidth(2); sound.setframerate(8000)
    sound.writeframes(bytes(32000))
open("page.html", "w").write("<script>document.title = 'taken'</script>")
open("drawing.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="200" '
    'height="50"><script>document.title = "taken"</script><rect width="200" height="50"/></svg>')
"""
    chat_id, text = run_in(member.client, model, code)
    member_page.open_chat(chat_id)
    member_page.wait_for_pictures(1)
    member_page.page.wait_for_function(
        "[...document.querySelectorAll('audio')].some(sound => sound.duration === 2)",
        timeout=20_000,
    )
    picture(member_page, "opened")
    assert "taken" not in member_page.title()
    answer = member_page.page.request
    for address in re.findall(r"/api/v1/files/[\w-]+/content", text):
        got = answer.get(member_page.page.url.partition("/c/")[0] + address)
        assert got.headers["content-disposition"].startswith("attachment")


def test_H02_output_is_seen_live_and_after_the_tab_was_closed(
    member_page: ChatPage, model: ScriptedModel, picture: Picture
) -> None:
    code = """\
import time
for i in range(6):
    print("tick", i, flush=True)
    time.sleep(1)
open("ticks.txt", "w").write("done")
from PIL import Image
Image.new("RGB", (200, 100), "red").save("red.png")
"""
    model.script(Reply(fenced(code)))
    member_page.new_chat(MODEL)
    member_page.ask("count")
    member_page.press(BUTTON)
    member_page.wait_for_answer_text("tick 2", timeout=20)
    assert "running…" in member_page.answer_text()
    assert "tick 5" not in member_page.answer_text()
    picture(member_page, "live")
    chat_id = member_page.chat_id
    member_page.page.goto("about:blank")
    time.sleep(6)
    member_page.open_chat(chat_id)
    member_page.wait_for_answer_text("ticks.txt", timeout=20)
    member_page.wait_for_pictures(1)
    assert "tick 5" in member_page.answer_text()
    assert "running…" not in member_page.answer_text()
    picture(member_page, "opened")


def test_a_temporary_chat_has_no_attached_files_and_says_so(
    admin: Person,
    member_page: ChatPage,
    model: ScriptedModel,
    picture: Picture,
    tmp_path: Path,
) -> None:
    """Open WebUI does not upload them there. What a program makes is shown."""
    admin.client.add_model("model-that-runs", MODEL, [TOOL.id])
    sales = tmp_path / "sales.csv"
    sales.write_text(SALES)
    model.script(call("open('made.csv', 'w').write('a,b')"), Reply("It is made."))
    member_page.new_chat("model-that-runs", temporary=True)
    chooser = member_page.page.locator("input[type=file]").first
    chooser.set_input_files(str(sales))
    member_page.page.get_by_text("sales.csv").first.wait_for(timeout=20_000)
    member_page.ask("make it")
    member_page.wait_for_answer_text("It is made.")
    (told,) = told_by_tool(model)
    assert "made.csv (3 bytes)" in told
    assert "“sales.csv” is not in the work folder: a temporary chat does not" in told
    chip = member_page.page.get_by_text("made.csv", exact=True)
    chip.first.wait_for(timeout=20_000)
    picture(member_page, "made")
