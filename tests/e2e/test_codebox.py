"""Both plugins over a codebox service in a real Open WebUI, and what people are told when the
service is away, refuses, or dies."""

import http.server
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox_core.engines.docker import DockerEngine
from scripts.bringup.process import free_port
from tests.codebox.service_process import ServiceProcess
from tests.codebox.tokens import SECRET
from tests.e2e.conftest import Person
from tests.e2e.runs import (
    BUTTON,
    TOOL,
    fenced,
    press,
    result_of,
    run,
    store_answer,
    valves,
    wait_until,
)
from tests.owui.browser import ChatPage
from tests.owui.scripted_model import Reply, ScriptedModel, ToolCall

pytestmark = pytest.mark.usefixtures("plugins")

TEXT = b'{"event":"text","step":0,"stream":"stdout","text":"so far\\n"}\n'


@pytest.fixture(scope="module")
def start_codebox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Starts services with settings of their own, and ends them."""
    folder = tmp_path_factory.mktemp("codebox")
    started: list[ServiceProcess] = []

    def start(**settings: Any) -> ServiceProcess:
        started.append(ServiceProcess(folder, warm_sandboxes=0, **settings))
        return started[-1]

    yield start
    for service in started:
        if service.process.poll() is None:
            service.stop()


@pytest.fixture
def over(admin: Person) -> Callable[..., Any]:
    """`with over(url):` both plugins use the service at this address."""

    def over(url: str, secret: str = SECRET) -> Any:
        return valves(admin.client, codebox_url=url, codebox_secret=secret)

    return over


@pytest.fixture
def answer_with() -> Iterator[Callable[..., str]]:
    """A server that gives every request one answer; a 200 breaks off in the middle."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(status: int, body: bytes) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(status)
                if status == 200:
                    self.send_header("Transfer-Encoding", "chunked")
                    sent = b"%x\r\n%s\r\n" % (len(body), body)  # and no last chunk
                else:
                    self.send_header("Content-Length", str(len(body)))
                    sent = body
                self.end_headers()
                self.wfile.write(sent)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_live_output_files_and_the_tool(
    start_codebox: Any,
    over: Any,
    member: Person,
    member_page: ChatPage,
    model: ScriptedModel,
) -> None:
    service = start_codebox()
    code = (
        "import time\nopen('made.txt', 'w').write('x')\n"
        "for n in range(8):\n    print('tick', n)\n    time.sleep(1)"
    )
    with over(service.url):
        chat_id, _ = store_answer(member.client, fenced(code))
        member_page.open_chat(chat_id)
        member_page.press(BUTTON)
        member_page.wait_for_answer_text("tick 2")
        seen = member_page.answer_text()
        assert "running…" in seen
        assert "tick 7" not in seen
        member_page.wait_for_answer_text("Python · ok")
        assert "tick 7" in member_page.answer_text()
        assert "made.txt" in member_page.answer_text()
        model.script(Reply(tool_calls=(ToolCall("run_code", {"code": "print(6*7)"}),)))
        member.client.ask("use the tool", tool_ids=[TOOL.id])
        assert "42" in model.last_messages()[-1]["content"]
    assert service.metric("codebox_runs_total") == 2


def test_service_is_killed_in_the_middle_and_comes_back(
    start_codebox: Any, over: Any, member: Person, docker_host: str
) -> None:
    service = start_codebox()
    pid = str(service.process.pid)
    engine = DockerEngine(docker_host)

    def sandboxes() -> list[Any]:
        return [
            lease for lease in engine.leftovers() if lease.owner.split("/")[1] == pid
        ]

    chat_id, message_id = store_answer(
        member.client,
        fenced("import time\nprint('so far', flush=True)\ntime.sleep(60)"),
    )
    told: list[str] = []
    with over(service.url):
        pressed = threading.Thread(
            target=lambda: told.append(
                result_of(press(member.client, chat_id, message_id))
            )
        )
        pressed.start()
        wait_until(sandboxes, 30, "it runs")
        wait_until(lambda: service.metric("codebox_running") == 1, 30, "it runs")
        # What is printed takes a moment to the plugin.
        time.sleep(2)
        service.process.kill()
        pressed.join(30)
        assert "The connection to the code service was lost" in told[0]
        assert "so far" in told[0]
        text = run(member.client, "print(1)")
        assert "The code service cannot be reached" in text
    wait_until(lambda: not sandboxes(), 60, "no sandbox is left")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"{}", "same secret"),
        (429, b'{"message": "Too many calls: wait 3 seconds."}', "wait 3 seconds"),
        (500, b"oops", r"has a fault \(HTTP 500\)"),
        (503, b'{"message": "Still checking."}', "Still checking"),
        (200, TEXT, "lost during the run"),
    ],
)
def test_h01_each_trouble_has_its_own_sentence(
    answer_with: Callable[..., str],
    over: Any,
    member: Person,
    model: ScriptedModel,
    status: int,
    body: bytes,
    words: str,
) -> None:
    with over(answer_with(status, body)):
        text = run(member.client, "print(1)")
        model.script(Reply(tool_calls=(ToolCall("run_code", {"code": "print(1)"}),)))
        member.client.ask("use the tool", tool_ids=[TOOL.id])
        told = str(model.last_messages()[-1]["content"])
    for said in (text, told):
        assert re.search(words, said), said
        assert not re.search(r"Traceback|127\.0\.0\.1|http:", said), said
        assert ("so far" in said) == (status == 200)
    assert told.startswith("outcome: sandbox_error\n")


def test_nobody_listens(over: Any, member: Person) -> None:
    with over(f"http://127.0.0.1:{free_port()}"):
        text = run(member.client, "print(1)")
    assert "The code service cannot be reached" in text


def test_limits_of_the_service_are_told_with_the_time_to_wait(
    start_codebox: Any, over: Any, member: Person
) -> None:
    service = start_codebox(rate_limit_rps=0.1, rate_limit_burst=1)
    with over(service.url):
        assert "· ok ·" in run(member.client, "print(1)")
        text = run(member.client, "print(1)")
    assert "Too many calls: wait " in text


def test_other_secret(start_codebox: Any, over: Any, member: Person) -> None:
    service = start_codebox()
    with over(service.url, "another-secret-32-bytes-long-yyyy"):
        text = run(member.client, "print(1)")
    assert "same secret" in text
    assert service.metric("codebox_runs_total") == 0
