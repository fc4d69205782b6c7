"""Where an engine may be: by TCP with TLS it works, by ssh it is refused with the reason."""

import socket
import ssl
import subprocess
import threading
from contextlib import suppress

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner
from tests.contract.runs import describe, run

_MAKE = [
    "openssl",
    "req",
    "-x509",
    "-newkey",
    "rsa:2048",
    "-nodes",
    "-days",
    "1",
    "-subj",
    "/CN=127.0.0.1",
]
_NAMED = ["-addext", "subjectAltName=IP:127.0.0.1"]


@pytest.fixture
def certificates(tmp_path):
    """A folder as DOCKER_CERT_PATH wants it; one certificate is server, client and CA."""
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run([*_MAKE, *_NAMED, *files], check=True, capture_output=True)
    (tmp_path / "ca.pem").write_bytes((tmp_path / "cert.pem").read_bytes())
    return tmp_path


@pytest.fixture
def tls_address(certificates, docker_host):
    """The engine's socket by TCP with TLS, for clients with the certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    context.load_verify_locations(certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))
    target = docker_host.removeprefix("unix://")
    threading.Thread(
        target=_accept, args=(listener, context, target), daemon=True
    ).start()
    yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _accept(listener, context, target):
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(
            target=_serve, args=(client, context, target), daemon=True
        ).start()


def _serve(client, context, target):
    """Hand on between both ends, in one thread: TLS takes no two at a time."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as engine:
        engine.connect(target)
        tls = context.wrap_socket(client, server_side=True)
        with tls:
            _hand_on(tls, engine)


def _hand_on(*ends):
    while True:
        for source, sink in (ends, ends[::-1]):
            source.settimeout(0.01)
            with suppress(TimeoutError):
                data = source.recv(1 << 16)
                if not data:
                    return
                sink.settimeout(30)
                sink.sendall(data)


def test_s02_tls(tls_address, certificates, image, runtime, monkeypatch):
    monkeypatch.setenv("DOCKER_CERT_PATH", str(certificates))
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    for bundle in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(bundle, raising=False)  # they would win
    runner = LocalRunner(DockerEngine(tls_address, image, runtime), image, runtime)
    try:
        result = run(runner, "import sys; sys.stdout.write('x' * 800_000 + 'end')")
        assert result.outcome is Outcome.OK, describe(result)
        assert str(result.stdout).endswith("end")
        assert result.stdout.omitted > 100_000
    finally:
        runner.close()


def test_s02_tls_without_the_certificate_is_refused(
    tls_address, image, runtime, monkeypatch
):
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    (finding,) = DockerEngine(tls_address, image, runtime).check(Deadline(10))
    assert not finding.ok
    assert "cannot be reached" in finding.text


def test_s02_ssh_is_refused_before_the_first_run(image, runtime, monkeypatch):
    for given, environment in (("ssh://host", ""), ("", "ssh://host")):
        monkeypatch.setenv("DOCKER_HOST", environment)
        (finding,) = DockerEngine(given, image, runtime).check(Deadline(10))
        assert not finding.ok
        assert "cannot be used by ssh" in finding.text
        assert "host" not in finding.text


def test_engine_of_the_environment(docker_host, image, runtime, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker_host)
    assert all(
        entry.ok for entry in DockerEngine("", image, runtime).check(Deadline(10))
    )
