"""Twenty runs of one person in flight or waiting, and nobody else feels them."""

import statistics
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import Person
from tests.e2e.runs import TOOL, run, sandboxes_of, wait_until
from tests.owui.scripted_model import Reply, ScriptedModel, ToolCall
from tests.owui.server import OpenWebUIServer

pytestmark = pytest.mark.usefixtures("cold")

RUNS = 20
ROUNDS = 8
PAYLOAD = b"x" * 200_000


def seconds_of(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def test_twenty_runs_of_one_person_hold_up_nobody(
    server: OpenWebUIServer,
    admin: Person,
    member: Person,
    model: ScriptedModel,
    docker_host: str,
) -> None:
    def health() -> None:
        with urllib.request.urlopen(f"{server.url}/health", timeout=10) as answer:
            assert answer.status == 200

    def up_and_down() -> None:
        """An endpoint that itself needs a thread of Open WebUI's pool."""
        item = admin.client.upload_file("data.bin", PAYLOAD)
        path = f"/api/v1/files/{item['id']}/content"
        assert admin.client.download(path) == PAYLOAD

    def measure(work: Callable[[], object]) -> float:
        return statistics.median(seconds_of(work) for _ in range(ROUNDS))

    def sandboxes() -> int:
        return len(sandboxes_of(server.pid, docker_host))

    run(admin.client, "print(1)")  # the button, too, uses the new settings now
    wait_until(lambda: sandboxes() == 0, 20, "nothing runs")
    up_and_down()
    idle = measure(up_and_down)
    call = ToolCall("run_code", {"code": "import time\ntime.sleep(30)"})
    model.script(*[Reply(tool_calls=(call,))] * RUNS)
    turns = [member.client.start_turn("go", tool_ids=[TOOL.id]) for _ in range(RUNS)]
    wait_until(lambda: sandboxes() == 2, 20, "two run, the others wait")
    slowest_health = max(seconds_of(health) for _ in range(ROUNDS))
    busy = measure(up_and_down)
    other = seconds_of(lambda: run(admin.client, "print(1)"))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(member.client.stop_answer, [chat_id for chat_id, _ in turns]))
    wait_until(lambda: sandboxes() == 0, 5, "all have stopped")
    assert slowest_health < 1
    assert busy < 3 * idle + 0.3, f"{busy:.2f} s, idle {idle:.2f} s"
    assert other < 5
    for turn in turns:
        status = member.client.wait_for_answer(*turn)["statusHistory"][-1]
        assert status["description"] == "The run was stopped on request."
