"""openwebui.compose.yaml as it is: its services, what each may do, and runs through them all."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

from tests.contract.package_index import start_server
from tests.e2e.compose_project import INDEX_ALIAS, ComposeProject
from tests.e2e.runs import BUTTON, fenced, run, store_answer, valves
from tests.owui.browser import ChatPage
from tests.owui.client import ChatClient

Picture = Callable[[ChatPage, str], None]

MODEL = "demo-model (not an AI)"
SERVICES = (
    "open-webui",
    "codebox",
    "plugins",
    "secrets",
    "demo-model",
    "mirror",
    "redis",
)


@pytest.fixture(scope="module")
def project(docker_host: str, image: str) -> Iterator[ComposeProject]:
    """The project, up; its end leaves nothing."""
    project = ComposeProject(docker_host, image)
    try:
        project.up()
        yield project
    finally:
        project.down()
        assert project.remains() == []


@pytest.fixture(scope="module")
def password(project: ComposeProject) -> str:
    """Read as the documentation says."""
    file = "/run/run-code/open-webui/admin-password"
    return project.compose("exec", "-T", "open-webui", "cat", file).strip()


@pytest.fixture
def client(project: ComposeProject, password: str) -> ChatClient:
    client = ChatClient(project.url, model=MODEL)
    client.sign_in(project.email, password)
    return client


@pytest.fixture
def page(
    project: ComposeProject, password: str, browser: Browser
) -> Iterator[ChatPage]:
    page = ChatPage(browser, project.url)
    page.sign_in(project.email, password)
    yield page
    page.close()


def test_button_and_tool_run_code_in_codebox(
    page: ChatPage, project: ComposeProject, picture: Picture
) -> None:
    page.new_chat(MODEL)
    page.ask("find the primes, please")
    assert page.press_and_wait(BUTTON) == 200
    page.wait_for_answer_text("25 primes up to 100:")
    page.wait_for_answer_text("Run code · Python · ok")
    picture(page, "button")
    page.reload()
    page.wait_for_answer_text("25 primes up to 100:")
    page.ask("use the tool to print some squares")
    page.wait_for_answer_text("5 squared is 25")
    picture(page, "tool")
    assert page.requests_elsewhere() == []
    lines = [
        json.loads(line)
        for line in project.log("codebox").splitlines()
        if line.startswith("{")
    ]
    assert len(lines) == 2
    assert {(line["outcome"], line["chat"]) for line in lines} == {("ok", page.chat_id)}


def test_plot_of_a_run_is_shown_and_kept(page: ChatPage, picture: Picture) -> None:
    page.new_chat(MODEL)
    page.ask("draw a plot")
    assert page.press_and_wait(BUTTON) == 200
    page.wait_for_answer_text("highest point of the sine: 1.0")
    for moment in ("live", "reloaded"):
        image = page.page.locator("#response-content-container img").last
        image.wait_for(timeout=20_000)
        assert image.evaluate("image => image.naturalWidth") > 100
        picture(page, moment)
        page.reload()


def test_p02_install_then_run(
    page: ChatPage,
    project: ComposeProject,
    client: ChatClient,
    image: str,
    picture: Picture,
) -> None:
    with ExitStack() as undo:
        network = project.mirror_network
        index = start_server(project.docker, undo, image, network, [INDEX_ALIAS])
        undo.enter_context(valves(client, network="packages"))
        install = "First:\n\n```bash\npip install cowsay\n```\n\nThen:\n\n"
        code = "import cowsay\ncowsay.say('moo')"
        chat_id, _ = store_answer(client, install + fenced(code))
        page.open_chat(chat_id)
        assert page.press_and_wait(BUTTON) == 200
        for moment in ("live", "reloaded"):
            page.wait_for_answer_text("cow says moo")
            page.wait_for_answer_text("Installed for this run: cowsay 6.1.")
            picture(page, moment)
            page.reload()
        assert "cowsay-6.1" in project.docker.logs(index).decode()


def test_output_is_seen_while_the_program_runs(
    page: ChatPage, client: ChatClient
) -> None:
    code = "import time\nfor n in range(8):\n    print('tick', n)\n    time.sleep(1)"
    chat_id, _ = store_answer(client, fenced(code))
    page.open_chat(chat_id)
    page.press(BUTTON)
    page.wait_for_answer_text("tick 2")
    seen = page.answer_text()
    assert "running…" in seen
    assert "tick 7" not in seen
    page.wait_for_answer_text("Python · ok")
    assert "tick 7" in page.answer_text()


def test_only_codebox_has_the_socket_and_nobody_has_privileges(
    project: ComposeProject,
) -> None:
    for service in SERVICES:
        facts = project.facts(service)
        host = facts["HostConfig"]
        assert host["Privileged"] is False
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Devices"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert "host" not in (host["NetworkMode"], host["PidMode"], host["IpcMode"])
        sources = [mount["Source"] for mount in facts["Mounts"]]
        has_socket = any(source.endswith(".sock") for source in sources)
        assert has_socket == (service == "codebox"), sources
        assert host["ReadonlyRootfs"] == (service != "open-webui")
    codebox = project.facts("codebox")
    assert codebox["Config"]["User"].startswith("65534:")
    assert not codebox["HostConfig"]["PortBindings"]
    ports = project.facts("open-webui")["HostConfig"]["PortBindings"]["8080/tcp"]
    assert [port["HostIp"] for port in ports] == ["127.0.0.1"]
    assert "No such file" in project.run("open-webui", "ls", "/var/run/docker.sock")
    status = project.run("open-webui", "cat", "/proc/1/status")
    assert re.search(r"^CapEff:\t0{16}$", status, re.MULTILINE)


def test_secrets_are_in_files_only(project: ComposeProject, password: str) -> None:
    folder = "/run/run-code"
    names = ("codebox/secret", "open-webui/secret-key", "open-webui/admin-password")
    secrets = [
        project.run("open-webui", "cat", f"{folder}/{name}").strip() for name in names
    ]
    assert password in secrets
    assert len(set(secrets)) == len(secrets) == 3
    assert all(re.fullmatch("[0-9a-f]{64}", secret) for secret in secrets)
    for service in SERVICES:
        told = json.dumps(project.facts(service)) + project.log(service)
        assert not any(secret in told for secret in secrets), service
    own = project.run("codebox", "find", folder, "-type", "f")
    assert own.split() == [f"{folder}/codebox/secret"]
    modes = project.run("open-webui", "find", folder, "-type", "f", "-printf", "%m ")
    assert modes.split() == ["440"] * 3


def test_a_second_up_changes_nothing_but_the_plugins(
    project: ComposeProject, client: ChatClient, password: str
) -> None:
    valves = client.get("/api/v1/functions/id/run_code/valves") or {}
    client.post(
        "/api/v1/functions/id/run_code/valves/update", {**valves, "timeout_seconds": 7}
    )
    before = project.facts("open-webui")["Id"], project.facts("codebox")["Id"]
    project.up()
    assert before == (project.facts("open-webui")["Id"], project.facts("codebox")["Id"])
    assert "Updated the Function 'run_code'" in project.log("plugins")
    client.sign_in(project.email, password)
    kept = client.get("/api/v1/functions/id/run_code/valves")
    assert kept["timeout_seconds"] == 7


def test_two_replicas_count_in_one_redis_and_wait_for_it(
    project: ComposeProject, client: ChatClient, password: str
) -> None:
    project.up_with_replicas(2)
    client.sign_in(project.email, password)
    assert "1 and 2" in run(client, "print('1 and 2')")
    replicas = [facts["Id"] for facts in project.facts_of_all("codebox")]
    assert len(replicas) == 2
    assert "codebox" in project.run("redis", "redis-cli", "--scan").lower()
    project.compose("stop", "redis")
    told = run(client, "print('3 and 4')")
    assert "The limits cannot be checked right now, so nothing was run" in told
