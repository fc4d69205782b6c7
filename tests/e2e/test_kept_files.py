"""Whose files they are, how many are kept, and what is not brought back."""

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scripts.bringup.rest import Refused
from tests.e2e.conftest import Person, browser_session
from tests.e2e.file_runs import LINK, plain, run_in
from tests.e2e.runs import FUNCTION, run, valves
from tests.owui.browser import ChatPage
from tests.owui.client import ChatClient
from tests.owui.scripted_model import MODEL, ScriptedModel
from tests.owui.server import OpenWebUIServer

pytestmark = pytest.mark.usefixtures("plugins")


def test_F05_two_chats_keep_their_own_files(
    member: Person, model: ScriptedModel
) -> None:
    write, read = (
        "open('state.json', 'w').write('%d')",
        "print(open('state.json').read() * 3)",
    )
    chats = [run_in(member.client, model, write % number)[0] for number in (1, 2)]
    for number, chat_id in enumerate(chats, start=1):
        text = run_in(member.client, model, read, chat_id=chat_id)[1]
        assert f"\n{str(number) * 3}\n" in text
    text = run_in(member.client, model, "open('stat.json')", chat_id=chats[0])[1]
    assert "In the work folder at the start: state.json." in plain(text)


def test_U01_two_people_see_only_their_own(admin: Person, member: Person) -> None:
    """Same second, same file name, fifty rounds."""

    def runs(person: Person, word: str) -> list[str]:
        """The links of files with something else than this person's word."""
        wrong = []
        for number in range(50):
            own = f"{word}{number}"
            code = f"print('{own}'); open('same.txt', 'w').write('{own}')"
            text = run(person.client, code)
            links = LINK.findall(text)
            served = [person.client.download(link).decode() for link in links]
            if f"\n{own}\n" not in text or served != [own]:
                wrong.append(text)
        return wrong

    with (
        valves(admin.client, FUNCTION, kept_files_per_user=1000),
        ThreadPoolExecutor(2) as pool,
    ):
        first = pool.submit(runs, admin, "admin")
        second = pool.submit(runs, member, "member")
        assert first.result() == []
        assert second.result() == []


def test_U02_nobody_else_opens_a_file_but_readers_of_a_shared_chat(
    browser: Browser,
    admin: Person,
    member: Person,
    open_page: Callable[[Person], ChatPage],
    model: ScriptedModel,
    picture: Callable[[ChatPage, str], None],
) -> None:
    other = ChatClient(admin.client.url, model=MODEL)
    account = "eve@example.com", "a-password-of-eve"
    admin.client.add_user("Eve Else", *account)
    other.sign_in(*account)
    code = """\
import matplotlib.pyplot as plt
plt.plot([1, 3, 2]); plt.savefig("chart.png")
open("secret.txt", "w").write("mine")
"""
    chat_id, text = run_in(member.client, model, code)
    addresses = LINK.findall(text)
    assert b"mine" in [member.client.download(address) for address in addresses]
    nobody = ChatClient(admin.client.url)
    for stranger in (other, nobody):
        for address in addresses:
            with pytest.raises(Refused):
                stranger.download(address)
    shared = member.client.post(f"/api/v1/chats/{chat_id}/share")
    everybody = {"principal_type": "user", "principal_id": "*", "permission": "read"}
    grants = {"access_grants": [everybody]}
    admin.client.post(f"/api/v1/chats/shared/{chat_id}/access/update", grants)
    assert b"mine" in [other.download(address) for address in addresses]
    with pytest.raises(Refused):
        nobody.download(addresses[0])

    session = browser_session(browser, other.url, *account)
    page = open_page(Person(other, session))
    page.open_shared_chat(shared["share_id"])
    page.wait_for_pictures(1)
    picture(page, "shared")
    assert "secret.txt" in page.page.inner_text("body")


def test_U06_a_quota_refuses_files_with_numbers_and_shows_the_output(
    admin: Person, member: Person
) -> None:
    with valves(admin.client, FUNCTION, kept_files_per_user=0):
        text = run(member.client, "open('a.bin', 'w').write('x'); print('out')")
    assert "\nout\n" in text
    assert "a.bin: you keep" in text
    assert "of 0 files from runs" in text
    assert "Manage Files" in text
    assert LINK.findall(text) == []


def test_U06_the_oldest_make_room_where_a_setting_says_so(
    admin: Person, member: Person, model: ScriptedModel
) -> None:
    """Files of runs only: what people attached stays, and so do others' files."""
    newcomer = ChatClient(admin.client.url, model=MODEL)
    admin.client.add_user("Nina New", "nina@example.com", "a-password-of-nina")
    newcomer.sign_in("nina@example.com", "a-password-of-nina")
    attached = newcomer.upload_file("mine.csv", b"1,2")
    write = "open('%s.bin', 'w').write('%s')"
    others = LINK.findall(run(member.client, write % ("other", "o")))
    with valves(
        admin.client, FUNCTION, kept_files_per_user=2, delete_oldest_files=True
    ):
        texts = [run(newcomer, write % (name, name)) for name in ("a", "b", "c")]
    assert all(LINK.findall(text) for text in texts), texts
    links = [LINK.findall(text)[0] for text in texts]
    assert "deleted" not in texts[0] + texts[1]
    said = "To make room, your oldest files from runs were deleted: “a.bin”."
    assert said in plain(texts[2])
    with pytest.raises(Refused):
        newcomer.download(links[0])
    assert [newcomer.download(link) for link in links[1:]] == [b"b", b"c"]
    address = f"/api/v1/files/{attached['id']}/content"
    assert newcomer.download(address) == b"1,2"
    assert member.client.download(others[0]) == b"o"


@pytest.fixture
def second_server(server: OpenWebUIServer) -> Iterator[OpenWebUIServer]:
    twin = server.twin()
    try:
        twin.start()
        yield twin
    finally:
        twin.stop()


def test_U07_a_quota_holds_over_two_workers(
    admin: Person, second_server: OpenWebUIServer
) -> None:
    """Two processes over one database and one data folder; three runs in each at a time."""
    email, password = "tom@example.com", "a-password-of-tom"
    admin.client.add_user("Tom Two", email, password)
    clients = [
        ChatClient(u, model=MODEL) for u in (admin.client.url, second_server.url)
    ]
    for client in clients:
        client.sign_in(email, password)
    code = "for n in 'ab': open(n, 'w').write(n)"
    with (
        valves(admin.client, FUNCTION, kept_files_per_user=7),
        ThreadPoolExecutor(6) as pool,
    ):
        runs = [pool.submit(run, client, code) for client in clients * 3]
        texts = [entry.result() for entry in runs]
    links = [link for text in texts for link in LINK.findall(text)]
    assert len(links) == 7, texts
    assert sum(text.count("of 7 files from runs") for text in texts) >= 1
    served = [clients[number % 2].download(link) for number, link in enumerate(links)]
    assert set(served) == {b"a", b"b"}


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """The folder on a disk of its own that has no room left."""
    options = "size=4k,mode=755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    subprocess.run(mount, check=True, timeout=10)
    try:
        (folder / "filling").write_bytes(b"x" * 4096)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=10)


def test_H09_a_full_disk_loses_the_files_and_nothing_else(
    server: OpenWebUIServer, member: Person
) -> None:
    with full_disk(server.log.parent / "data" / "uploads"):
        text = run(member.client, "open('a.bin', 'w').write('x'); print('out')")
    assert "\nout\n" in text
    assert "a.bin: the server's disk is full" in plain(text)
    assert LINK.findall(text) == []


def test_R34_what_is_no_file_is_named_and_not_brought_back(member: Person) -> None:
    """R34, and R11: names and bytes of all scripts."""
    code = """\
import os
os.mkfifo("pipe"); os.symlink("/etc/passwd", "passwd.txt"); os.symlink("loop", "loop")
open("real.txt", "w").write("r"); os.link("real.txt", "hard.txt")
open("naïve-测试.txt", "w").write("ß🧪")
with open("hole.bin", "wb") as hole: hole.truncate(10**9)
"""
    text = run(member.client, code)
    served = sorted(member.client.download(address) for address in LINK.findall(text))
    assert served == sorted([b"r", b"r", "ß🧪".encode()])
    for name in ("pipe", "passwd.txt", "loop", "hole.bin", "naïve-测试.txt"):
        assert name in plain(text)


def test_R31_a_full_disk_of_the_run_is_an_error_and_its_file_is_named(
    member: Person,
) -> None:
    code = """\
f = open("big.bin", "wb")
try:
    while True: f.write(b"\\0" * 1_000_000)
except OSError as e:
    print(e.errno)
"""
    text = plain(run(member.client, code))
    assert "\n28\n" in text
    assert re.search("big.bin: .*MB", text), text


def test_R32_many_files_are_few_words(member: Person) -> None:
    text = run(member.client, "for i in range(3000): open(f'f{i}', 'w').close()")
    assert "beyond the limit of 100" in text
    assert "and 90 more: empty" in text
    assert len(text) < 1024


def test_R06_a_long_output_is_shown_in_part_and_offered_whole(
    member: Person, member_page: ChatPage, model: ScriptedModel
) -> None:
    """R06, and H11: the same view after a reload."""
    code = 'for i in range(20000):\n    print("line", i)'
    chat_id, text = run_in(member.client, model, code)
    assert "line 0\n" in text
    assert "line 19999\n" in text
    assert "line 10000\n" not in text
    whole = member.client.download(LINK.findall(text)[0]).decode()
    assert whole == "".join(f"line {i}\n" for i in range(20000))
    member_page.open_chat(chat_id)
    member_page.wait_for_answer_text("line 19999")
    shown = member_page.answer_text()
    member_page.reload()
    member_page.wait_for_answer_text("line 19999")
    assert member_page.answer_text() == shown
