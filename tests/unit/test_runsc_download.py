"""gVisor's program from an address: kept only with the checksum that was stated."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sandbox_core.engines import runsc_download
from sandbox_core.engines.runsc_download import (
    download_runsc,
    downloaded_runsc,
    start_runsc_download,
)
from sandbox_core.errors import RuntimeMissing

PROGRAM = b"#!/bin/sh\necho runsc version release-20240729.0\n"
SHA512 = hashlib.sha512(PROGRAM).hexdigest()


@pytest.fixture
def server(monkeypatch):
    """A mirror on this machine, which also takes requests as a proxy does."""

    class Mirror(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            found = self.path.endswith("/runsc")
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(PROGRAM if found else b"")

        def log_message(self, *_):
            pass

    asked = []
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", asked
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_it_is_fetched_once_checked_and_can_be_executed(server, tmp_path, monkeypatch):
    address, asked = server
    monkeypatch.setattr(runsc_download.platform, "machine", lambda: "riscv")
    path = download_runsc(f"{address}/{{arch}}/runsc", SHA512.upper(), tmp_path)
    assert path == downloaded_runsc(SHA512, tmp_path)
    assert path.read_bytes() == PROGRAM
    assert path.stat().st_mode & 0o777 == 0o755
    assert download_runsc(f"{address}/{{arch}}/runsc", SHA512, tmp_path) == path
    assert asked == ["/riscv/runsc"]


@pytest.mark.parametrize(
    ("path", "sha512", "reason"),
    [
        ("/runsc", "0" * 128, "its SHA-512 is"),
        ("/gone", SHA512, "404"),
    ],
)
def test_what_is_not_it_is_not_kept(server, tmp_path, path, sha512, reason):
    with pytest.raises(RuntimeMissing, match="could not be downloaded") as raised:
        download_runsc(server[0] + path, sha512, tmp_path)
    assert reason in raised.value.detail
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [".lock"]


def test_too_much_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(runsc_download, "_MOST_BYTES", 10)
    with pytest.raises(RuntimeMissing):
        download_runsc(f"{server[0]}/runsc", SHA512, tmp_path)


def test_the_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch):
    address, asked = server
    monkeypatch.setenv("http_proxy", address)
    monkeypatch.setenv("no_proxy", "")
    download_runsc("http://mirror.invalid/runsc", SHA512, tmp_path)
    assert asked == ["http://mirror.invalid/runsc"]


def test_nobody_waits_for_it(server, tmp_path, monkeypatch):
    monkeypatch.setattr(runsc_download, "default_images_folder", lambda: tmp_path / "i")
    start_runsc_download(f"{server[0]}/runsc", SHA512)
    for thread in threading.enumerate():
        if thread.name == "run-code-runsc":
            thread.join(20)
    assert downloaded_runsc(SHA512).read_bytes() == PROGRAM
    start_runsc_download("http://127.0.0.1:1/runsc", SHA512)  # is there already
    assert len(server[1]) == 1
