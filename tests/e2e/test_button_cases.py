"""What the button shows of all kinds of programs. By REST: no browser, no live socket."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import Person
from tests.e2e.runs import (
    FUNCTION,
    press,
    result_of,
    run,
    sandboxes_of,
    store_answer,
    valves,
    wait_until,
)
from tests.owui.server import OpenWebUIServer

SECONDS, MEMORY_MB = 4, 128

pytestmark = pytest.mark.usefixtures("cold", "low_limits")


@pytest.fixture(scope="module")
def low_limits(plugins: None, member: Person) -> Iterator[None]:
    """The member has lowered the own limits, so that the tests are quick."""
    limits = {"timeout_seconds": SECONDS, "memory_mb": MEMORY_MB}
    with valves(member.client, FUNCTION, personal=True, **limits):
        yield


@pytest.fixture(autouse=True)
def clean_end(server: OpenWebUIServer, docker_host: str) -> Iterator[None]:
    """Five seconds after the end nothing is left."""
    yield
    wait_until(
        lambda: not sandboxes_of(server.pid, docker_host), 5, "no sandbox is left"
    )


def heading(outcome: str, title: str = "Python") -> str:
    return rf"\A\n\*\*Run code\*\* · {title} · {outcome} · \d+\.\d\d s\n"


def test_r01a_there_is_no_keyboard(member: Person) -> None:
    text = run(member.client, 'name = input("Name? ")\nprint("hi", name)')
    assert re.match(heading(r"failed \(exit 1\)"), text)
    assert "There is no keyboard here: set the value in the code" in text
    assert "Name? " in text
    assert "EOFError" in text
    assert "hi" not in text


def test_r02_partial_output_of_a_program_that_is_too_slow(member: Person) -> None:
    begin = time.monotonic()
    text = run(
        member.client,
        "import time\nfor i in range(1000):\n    print('tick', i)\n    time.sleep(1)",
    )
    assert time.monotonic() - begin < SECONDS + 4
    assert re.match(heading("timed out"), text)
    assert f"stopped after {SECONDS} s, the time limit" in text
    assert "tick 0\ntick 1\ntick 2\n" in text


def test_r04_a_fork_bomb_harms_nobody(member: Person, admin: Person) -> None:
    bomb = "b() { b | b & }; b\nsleep 5"
    with ThreadPoolExecutor() as threads:
        bombed = threads.submit(run, member.client, bomb, "bash")
        time.sleep(1.5)
        begin = time.monotonic()
        assert "\n1\n" in run(admin.client, "print(1)")
        assert time.monotonic() - begin < 5
        text = bombed.result()
    assert re.match(heading("(timed out|process limit)", "Bash"), text)


def test_r05_a_flood_is_cut_and_stopped(member: Person) -> None:
    text = run(member.client, 'while True:\n    print("x" * 1000)')
    assert re.match(heading("(timed out|output limit)"), text)
    assert re.search(r"\[… \d{6,} bytes left out …\]", text)
    assert len(text.encode()) < 16 * 1024 + 1000


def test_r06_a_little_too_much_is_no_crime(member: Person) -> None:
    text = run(member.client, "for i in range(20000):\n    print('line', i)")
    assert re.match(heading("ok"), text)
    assert "```text\nline 0\n" in text
    assert "\nline 19999\n```" in text
    assert len(text.encode()) < 16 * 1024 + 1000


def test_r08_all_bytes(member: Person) -> None:
    text = run(
        member.client,
        'import sys\n_ = sys.stdout.buffer.write(bytes(range(256)) + b"END")',
    )
    assert re.match(heading("ok"), text)
    assert "\ufffd" in text
    assert "END" in text
    assert "\0" not in text


def test_r11_scripts_of_the_world(member: Person) -> None:
    text = run(
        member.client,
        'open("naïve-测试.txt", "w").write("ß🧪")\n'
        'print("héllo 你好 🧪 e\\u0301 \\u202eabc", open("naïve-测试.txt").read())',
    )
    assert re.match(heading("ok"), text)
    assert "héllo 你好 🧪 e\u0301 \\u202eabc ß🧪\n" in text


def test_r14_a_failure_keeps_both_streams(member: Person) -> None:
    text = run(
        member.client,
        'import sys\nprint("out"); print("err", file=sys.stderr); sys.exit(3)',
    )
    assert re.match(
        heading(r"failed \(exit 3\)") + r"The program failed with exit code 3\.\n", text
    )
    assert "out\n" in text
    assert "err\n" in text


def test_r14_a_crash_names_the_signal(member: Person) -> None:
    text = run(member.client, "import os\nos.kill(os.getpid(), 11)")
    assert re.match(heading(r"failed \(exit 139\)"), text)
    assert "killed by signal 11 (SIGSEGV)" in text


def test_r15_success_keeps_warnings(member: Person) -> None:
    text = run(member.client, 'import warnings; warnings.warn("careful"); print("ok")')
    assert re.match(heading("ok"), text)
    assert "UserWarning: careful" in text
    assert "\nok\n" in text


def test_r17_memory(member: Person) -> None:
    text = run(
        member.client,
        'print("before")\nx = []\nwhile True:\n    x.append(bytearray(10_000_000))',
    )
    assert re.match(heading("memory limit"), text)
    assert f"memory limit of {MEMORY_MB} MB" in text
    assert "before\n" in text


def test_r18_workers(member: Person) -> None:
    text = run(
        member.client,
        "from multiprocessing import get_context\n"
        "def sq(x):\n    return x * x\n"
        'if __name__ == "__main__":\n'
        '    with get_context("forkserver").Pool(2) as p:\n'
        "        print(p.map(sq, [1, 2, 3]))",
    )
    assert "[1, 4, 9]\n" in text


def test_r20_a_daemon_does_not_outlive_its_run(member: Person) -> None:
    begin = time.monotonic()
    code = "nohup setsid sh -c 'sleep 3; echo late >> late.txt' >/dev/null 2>&1 &\necho started"
    text = run(member.client, code, "bash")
    assert re.match(heading("ok", "Bash"), text)
    assert "```text\nstarted\n```" in text
    assert time.monotonic() - begin < 3


def test_r22_nothing_can_be_reached(member: Person) -> None:
    text = run(
        member.client,
        "import socket\n"
        'for h, p in [("169.254.169.254", 80), ("fd00:ec2::254", 80), ("172.17.0.1", 2375),\n'
        '             ("10.0.0.1", 80), ("192.168.0.1", 80), ("host.docker.internal", 8080),\n'
        '             ("open-webui", 8080), ("example.com", 443)]:\n'
        "    try:\n"
        '        socket.create_connection((h, p), 2).close(); print("OPEN", h, p)\n'
        "    except OSError as e:\n"
        '        print("closed", h, type(e).__name__)',
    )
    assert text.count("\nclosed ") == 8
    assert "OPEN" not in text


def test_r23_no_secrets(member: Person, server: OpenWebUIServer) -> None:
    text = run(
        member.client,
        "env; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n'; cat /proc/self/mountinfo\n"
        "ls -l /var/run/docker.sock; id; cat /etc/resolv.conf",
        "bash",
    )
    assert "uid=0" not in text
    assert "No such file or directory" in text
    for secret in ("SECRET", "API_KEY", "JWT", "DOCKER_HOST", str(server.log.parent)):
        assert secret not in text


def test_r36_main_guard(member: Person) -> None:
    text = run(member.client, 'if __name__ == "__main__": print("main")')
    assert "```text\nmain\n```" in text


def test_a_program_that_prints_nothing(member: Person) -> None:
    text = run(member.client, "x = 1")
    assert re.fullmatch(heading("ok") + "The program printed nothing\\.\n", text)


def test_p01_the_last_block_runs_when_nobody_can_be_asked(member: Person) -> None:
    answer = "```python\nprint('first')\n```\n\n```python\nprint('second')\n```\n"
    text = result_of(press(member.client, *store_answer(member.client, answer)))
    assert "**Run code** · block 2 of 2, python · ok" in text
    assert "```text\nsecond\n```" in text
    assert "first" not in text


def test_p02_installs_are_off(member: Person) -> None:
    answer = "```bash\npip install cowsay\n```\n\n```python\nimport cowsay\n```\n"
    text = result_of(press(member.client, *store_answer(member.client, answer)))
    assert "Installing packages is off" in text
    assert "ModuleNotFoundError" in text


def test_p16_shapes_of_a_message(member: Person) -> None:
    thought = {"type": "reasoning", "content": [{"type": "text", "text": "secret"}]}
    thought["summary"] = [{"type": "text", "text": "```python\nprint('secret')\n```"}]
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "```python\nprint('A')\n```"}],
    }
    client = member.client
    turns = [("user", "q"), ("assistant", "")]
    chat_id, message_id = client.new_chat(turns, output=[thought, item])
    assert "```text\nA\n```" in result_of(press(client, chat_id, message_id))
    # A caller who posts no messages, or odd ones, still means the message in the chat.
    for messages in ([], None, [{"id": message_id, "role": "assistant"}], ["odd"]):
        client.run_action(FUNCTION.id, chat_id, message_id, messages=messages)
    message = client.message(chat_id, message_id)
    assert [item["content"][0]["text"].count("A\n") for item in message["output"][2:]]
    assert len(message["output"]) == 2 + 5


def test_p16_nothing_to_run(member: Person) -> None:
    client = member.client
    for content in (None, "", "Just `words`, ``` in ``` a line."):
        chat_id, message_id = client.new_chat([("user", "q"), ("assistant", "")])
        posted = [{"id": message_id, "role": "assistant", "content": content}]
        begin = time.monotonic()
        answer = client.run_action(FUNCTION.id, chat_id, message_id, messages=posted)
        assert time.monotonic() - begin < 1.5
        assert answer is None
        status = client.message(chat_id, message_id)["statusHistory"][-1]
        assert status["description"].startswith("There is nothing to run")
        assert status["done"]


def test_an_old_message_without_items(member: Person) -> None:
    client = member.client
    old = "```python\nprint(1 + 1)\n```"
    chat_id, message_id = client.new_chat([("user", "q"), ("assistant", old)])
    for times in (1, 2):
        message = press(client, chat_id, message_id)
        assert not message.get("output")
        assert message["content"].startswith(old)
        assert message["content"].count("```text\n2\n```") == times
        assert message["statusHistory"][-1]["done"]


def test_a_message_in_the_middle_of_a_conversation(member: Person) -> None:
    client = member.client
    code = "```python\nprint('middle')\n```"
    turns = [("user", "a"), ("assistant", code), ("user", "b"), ("assistant", code)]
    chat_id, last = client.new_chat(turns)
    messages = client.chat(chat_id)["history"]["messages"]
    question = messages[messages[last]["parentId"]]
    middle = press(client, chat_id, question["parentId"])
    assert "```text\nmiddle\n```" in middle["content"]
    assert client.message(chat_id, last)["content"] == code


def test_a_second_run_is_put_below_the_first(member: Person) -> None:
    client = member.client
    where = store_answer(client, "```python\nimport time; print(time.time())\n```")
    first = result_of(press(client, *where))
    message = press(client, *where)
    assert len(message["output"]) == 3
    assert message["output"][1]["content"][0]["text"] == first
    assert result_of(message) != first


def test_two_people_at_once(member: Person, admin: Person) -> None:
    code = "import time; time.sleep(0.5); print('{} {}')"

    def own_only(person: Person, name: str, number: int) -> bool:
        text = run(person.client, code.format(name, number))
        return f"```text\n{name} {number}\n```" in text

    with ThreadPoolExecutor(4) as threads:
        runs = [
            threads.submit(own_only, person, name, number)
            for number in range(3)
            for person, name in ((member, "Bob"), (admin, "Ada"))
        ]
        assert all(each.result() for each in runs)


def test_a_browser_that_missed_the_result_does_not_erase_it(member: Person) -> None:
    client = member.client
    chat_id, message_id = store_answer(client, "```python\nprint('kept')\n```")
    with ThreadPoolExecutor() as threads:
        # What a page saves that saw the beginning of the run and lost its connection.
        pressed = threads.submit(client.run_action, FUNCTION.id, chat_id, message_id)
        wait_until(
            lambda: client.message(chat_id, message_id).get("statusHistory"),
            5,
            "the run has begun",
        )
        chat = client.chat(chat_id)
        chat["history"]["messages"][message_id]["error"] = {"content": "{}"}
        pressed.result()
    client.post(f"/api/v1/chats/{chat_id}", {"chat": chat})

    def is_mended() -> bool:
        message = client.message(chat_id, message_id)
        return "kept" in result_of(message) and not message.get("error")

    wait_until(is_mended, 8, "the result is back")
    assert client.message(chat_id, message_id)["statusHistory"][-1]["done"]
