"""The runner contract by way of the service, and what is told when the service fails."""

import http.server
import json
import threading
import time

import pytest

from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import InvalidRequest
from sandbox_core.models import InputFile, RunRequest, Step
from sandbox_core.outcome import Outcome
from sandbox_core.remote_runner import RemoteRunner
from scripts.bringup.process import free_port
from tests.codebox.tokens import SECRET
from tests.contract.display_suite import DisplayContract
from tests.contract.isolation_suite import IsolationContract
from tests.contract.limit_suite import LimitContract
from tests.contract.outcome_suite import OutcomeContract
from tests.contract.output_suite import OutputContract

REQUEST = RunRequest(steps=(Step("python", "print(1)"),), user="u1", chat="c1")
TEXT = {"event": "text", "step": 0, "stream": "stdout", "text": "so far\n"}


class _OverCodebox:
    @pytest.fixture
    def runner(self, service):
        runner = RemoteRunner(service.url, SECRET)
        yield runner
        runner.close()


class TestOutcomes(_OverCodebox, OutcomeContract):
    pass


class TestOutput(_OverCodebox, OutputContract):
    pass


class TestDisplays(_OverCodebox, DisplayContract):
    pass


class TestLimits(_OverCodebox, LimitContract):
    pass


class TestIsolation(_OverCodebox, IsolationContract):
    pass


@pytest.fixture
def runner_for():
    """Runners for addresses, closed in the end."""
    runners = []

    def make(url, secret=SECRET, silence_seconds=30.0):
        runners.append(RemoteRunner(url, secret, silence_seconds))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture
def fake_service():
    """A server that answers every POST as it is told: a status, a body, and then silence or
    the end of the connection."""
    servers = []

    def start(status, body=b"", stays=0.0, headers=()):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                if status == 200:
                    self.send_header("Transfer-Encoding", "chunked")
                    sent = b"%x\r\n%s\r\n" % (len(body), body)  # and no last chunk
                else:
                    self.send_header("Content-Length", str(len(body)))
                    sent = body
                self.end_headers()
                self.wfile.write(sent)
                self.wfile.flush()
                time.sleep(stays)
                self.close_connection = True

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def lines(*events):
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def told(result):
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "127.0.0.1" not in result.message
    assert SECRET not in result.message
    return result.message


def test_nobody_listens(runner_for):
    begun = time.monotonic()
    runner = runner_for(f"http://127.0.0.1:{free_port()}")
    assert "cannot be reached" in told(runner.run(REQUEST))
    assert time.monotonic() - begun < 6
    (finding,) = runner.findings()
    assert not finding.ok


def test_other_secret(service, runner_for):
    runner = runner_for(service.url, "another-secret-32-bytes-long-yyyy")
    assert "same secret" in told(runner.run(REQUEST))


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, b"", "same secret"),
        (403, b"", "does not let you"),
        (404, b"<html>", "no code service at the address"),
        (302, b"", "no code service at the address"),
        (429, b'{"message": "Too many calls: wait 3 seconds."}', "wait 3 seconds"),
        (500, b"", "has a fault (HTTP 500)"),
        (502, b"<html>bad gateway</html>", "has a fault (HTTP 502)"),
        (503, b'{"message": "Still checking."}', "Still checking."),
        (503, b'["?"]', "has a fault (HTTP 503)"),
    ],
)
def test_each_refusal_has_its_own_sentence(
    fake_service, runner_for, status, body, words
):
    url = fake_service(status, body, headers=[("Location", "http://127.0.0.1:9/")])
    assert words in told(runner_for(url).run(REQUEST))


def test_refused_content_is_the_callers_fault(fake_service, runner_for):
    url = fake_service(413, b'{"message": "The request is larger than 8 MiB."}')
    with pytest.raises(InvalidRequest, match="larger than 8 MiB"):
        runner_for(url).run(REQUEST)


def test_stream_that_breaks_off_keeps_what_was_printed(fake_service, runner_for):
    result = runner_for(fake_service(200, lines(TEXT))).run(REQUEST)
    assert "was lost during the run" in told(result)
    assert str(result.stdout) == str(result.output) == "so far\n"


def test_service_that_falls_silent_is_given_up(fake_service, runner_for):
    url = fake_service(200, lines(TEXT), stays=20)
    begun = time.monotonic()
    result = runner_for(url, silence_seconds=2).run(REQUEST)
    assert time.monotonic() - begun < 10
    assert "was lost during the run" in told(result)
    assert str(result.stdout) == "so far\n"


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"event": "result"}\n',
        lines({"event": "data", "base64": "eA=="}),
        lines(
            {"event": "file", "name": "x", "size": 1}, {"event": "data", "base64": "?"}
        ),
        lines({"event": "text", "step": None}),
    ],
)
def test_nonsense_is_no_result(fake_service, runner_for, body):
    message = told(runner_for(fake_service(200, lines(TEXT) + body)).run(REQUEST))
    assert "cannot be understood" in message


def test_bad_address_and_short_secret_are_refused(runner_for):
    with pytest.raises(InvalidRequest, match="http://"):
        runner_for("codebox:8000")
    with pytest.raises(InvalidRequest, match="32 characters"):
        runner_for("http://codebox:8000", "short")


def test_service_dies_in_the_middle(start_service, runner_for, leases_of, wait_until):
    service = start_service()
    code = (
        "import sys, time\nsys.stdout.write('begun\\n')\nsys.stdout.flush()\n"
        "time.sleep(120)\n"
    )
    request = RunRequest(steps=(Step("python", code),), user="u1")

    def kill(event):
        if "begun" in event.text:
            service.process.kill()

    result = runner_for(service.url).run(request, kill)
    service.process.wait(10)
    assert "was lost during the run" in told(result)
    assert str(result.stdout) == "begun\n"
    wait_until(lambda: not leases_of(service), 60)


def test_service_shuts_down_in_the_middle(start_service, runner_for, leases_of):
    service = start_service(shutdown_seconds=2)
    code = 'import time\nprint("begun", flush=True)\ntime.sleep(120)\n'
    request = RunRequest(steps=(Step("python", code),), user="u1")

    def end(event):
        if "begun" in event.text:
            service.process.terminate()

    result = runner_for(service.url).run(request, end)
    assert (result.outcome, str(result.stdout)) == (Outcome.CANCELLED, "begun\n")
    service.process.wait(20)
    assert not leases_of(service)


def test_cancel_while_waiting_for_a_place(start_service, runner_for):
    service = start_service(max_concurrent_per_user=1)
    runner = runner_for(service.url)
    sleeper = RunRequest(
        steps=(Step("python", "import time; time.sleep(20)"),), user="u1"
    )
    first, second = CancelToken(), CancelToken()
    busy = threading.Thread(target=runner.run, args=(sleeper, None, first))
    busy.start()
    time.sleep(2)
    threading.Timer(2, second.cancel).start()
    begun = time.monotonic()
    result = runner.run(REQUEST, cancel=second)
    assert result.outcome is Outcome.CANCELLED
    assert time.monotonic() - begun < 8
    first.cancel()
    busy.join(15)
    assert not busy.is_alive()


def test_many_files_of_many_kinds(service, runner_for):
    files = tuple(InputFile(f"dir {n}/ü{n}", bytes([n]) * 100_000) for n in range(20))
    code = (
        "import pathlib\n"
        "for path in sorted(pathlib.Path().glob('dir*/*')):\n"
        "    pathlib.Path('out' + path.name).write_bytes(path.read_bytes()[::-1])\n"
    )
    request = RunRequest(steps=(Step("python", code),), files=files, user="u1")
    result = runner_for(service.url).run(request)
    made = {file.name: file.content.read() for file in result.files}
    assert made == {f"outü{n}": bytes([n]) * 100_000 for n in range(20)}
