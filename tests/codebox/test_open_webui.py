"""codebox beside a real Open WebUI: sessions, files, and its own connections to us."""

import json
import secrets
import time

import pytest

from scripts.bringup.rest import Refused
from tests.codebox.test_mcp import call, text_of
from tests.codebox.tokens import good_token
from tests.owui.client import ChatClient
from tests.owui.server import OpenWebUIServer

BELIEVED_SECONDS = 2


@pytest.fixture(scope="module")
def open_webui(tmp_path_factory):
    server = OpenWebUIServer(
        tmp_path_factory.mktemp("open-webui"), "http://127.0.0.1:9"
    )
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def admin(open_webui):
    client = ChatClient(open_webui.url)
    client.sign_up("Ada Admin", "admin@example.com", secrets.token_urlsafe(12))
    return client


@pytest.fixture
def add_person(open_webui, admin):
    """Makes an account that is signed in."""

    def add(name):
        email, password = f"{name}@example.com", secrets.token_urlsafe(12)
        admin.add_user(name, email, password)
        client = ChatClient(open_webui.url)
        client.sign_in(email, password)
        return client

    return add


@pytest.fixture
def service(start_service, open_webui):
    return start_service(
        owui_base_url=open_webui.url,
        owui_session_tokens="true",
        owui_session_seconds=BELIEVED_SECONDS,
    )


def user_of(client):
    return client.get("/api/v1/auths/")["id"]


def test_a09_session_counts_as_long_as_its_user_may_sign_in(service, admin, add_person):
    person = add_person("bea")
    answer = service.run("print(1)", token=person.token)
    assert (answer.status_code, answer.json()["stdout"]) == (200, "1\n")
    assert f'"user": "{user_of(person)}"' in service.log()
    assert person.token not in service.log()
    admin.delete(f"/api/v1/users/{user_of(person)}")
    time.sleep(BELIEVED_SECONDS + 0.5)
    assert service.run("print(1)", token=person.token).status_code == 401


def test_files_move_with_the_callers_own_token(service, add_person):
    owner, other = add_person("carl"), add_person("dora")
    file_id = owner.upload_file("numbers.csv", b"1\n2\n3\n")["id"]
    code = (
        "total = sum(int(line) for line in open('in/numbers.csv'))\n"
        "open('total.txt', 'w').write(str(total))\n"
    )
    arguments = {
        "code": code,
        "input_files": [{"id": file_id, "path": "in/numbers.csv"}],
        "output_files": ["total.txt", "none.txt"],
    }
    _, (done,) = call(service, ("run_code", arguments), token=owner.token)
    text = text_of(done)
    assert "outcome: ok" in text, text
    assert "made no file none.txt" in text
    stored = text.partition("/api/v1/files/")[2].partition("/content")[0]
    assert owner.get(f"/api/v1/files/{stored}")["filename"] == "total.txt"
    with pytest.raises(Refused):
        other.get(f"/api/v1/files/{stored}")
    _, (refused,) = call(service, ("run_code", arguments), token=other.token)
    assert refused.is_error
    assert "There is no file" in text_of(refused)


def test_without_a_session_there_are_no_files(service):
    arguments = {"code": "1", "input_files": [{"id": "abc", "path": "x"}]}
    _, (refused,) = call(service, ("run_code", arguments), token=good_token())
    assert refused.is_error
    assert "session" in text_of(refused)


def test_open_webui_takes_our_document_and_our_tools(service, admin):
    for kind, path in (("openapi", "openapi.json"), ("mcp", "")):
        connection = {
            "url": f"{service.url}/mcp" if kind == "mcp" else service.url,
            "path": path,
            "type": kind,
            "auth_type": "bearer",
            "key": good_token(),
            "config": {"enable": True},
            "info": {"id": "codebox", "name": "codebox", "description": ""},
        }
        verified = admin.post("/api/v1/configs/tool_servers/verify", connection)
        told = json.dumps(verified)
        assert '"run_code"' in told, (kind, told)
        assert '"list_packages"' in told, (kind, told)
