"""Word of a newer version: asked for seldom, read from the head of a plugin file."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from owui_plugin.update_notice import newer_version, newest_version

DAY = 24 * 3600
FILE = '"""\ntitle: Run code\nversion: 1.2.3\n"""\n' + "x = 1\n" * 100_000


@pytest.fixture
def publisher(monkeypatch):
    """A server on this machine with a plugin file; also taken for a proxy."""

    class Publisher(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200 if "run_code.py" in self.path else 404)
            self.end_headers()
            self.wfile.write(FILE.encode())

        def log_message(self, *_):
            pass

    asked = []
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_is_asked_once_in_three_days(publisher, tmp_path):
    address, asked = publisher
    memory = tmp_path / "memory.json"
    page = f"{address}/run_code.py"
    assert newest_version(page, memory, now=1000 * DAY) == "1.2.3"
    assert newest_version(page, memory, now=1002.9 * DAY) == ""
    assert len(asked) == 1
    assert newest_version(page, memory, now=1003.1 * DAY) == "1.2.3"
    assert newest_version(page, memory, now=900 * DAY) == "1.2.3"  # a clock set back


def test_nobody_who_answers_is_silence_and_not_asked_again_soon(publisher, tmp_path):
    address, asked = publisher
    memory = tmp_path / "memory.json"
    assert newest_version(f"{address}/gone", memory, now=1000 * DAY) == ""
    assert newest_version(f"{address}/run_code.py", memory, now=1001 * DAY) == ""
    assert asked == ["/gone"]
    offline = "http://127.0.0.1:1/run_code.py"
    assert newest_version(offline, tmp_path / "other.json", now=1) == ""


def test_where_nothing_can_be_remembered_nothing_is_asked(publisher, tmp_path):
    address, asked = publisher
    assert newest_version(f"{address}/run_code.py", tmp_path / "no/memory.json") == ""
    assert asked == []


def test_the_proxy_of_the_environment_is_used(publisher, tmp_path, monkeypatch):
    address, asked = publisher
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("no_proxy", "")
    page = "http://publisher.invalid/run_code.py"
    assert newest_version(page, tmp_path / "memory.json") == "1.2.3"
    assert asked == [page]


@pytest.mark.parametrize(
    ("version", "ours", "is_newer"),
    [
        ("1.10.0", "1.9.9", True),
        ("1.9.9", "1.10.0", False),
        ("1.2.3", "1.2.3", False),
        ("1.2.3.1", "1.2.3", True),
        ("", "0.1.0", False),
    ],
)
def test_what_is_newer(version, ours, is_newer):
    assert newer_version(version, ours) is is_newer
