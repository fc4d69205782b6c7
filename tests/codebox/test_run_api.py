"""Runs over HTTP: what goes in, what comes out, and how a run is ended."""

import base64
import json
import threading
import time

import pytest
import requests

from tests.codebox.tokens import good_token, headers

# In one write: print makes two, and the second may come too late.
SLEEPER = 'import sys, time\nsys.stdout.write("begun\\n")\ntime.sleep(120)\n'


def test_answer_has_all_there_is_to_know(service):
    code = 'import sys\nprint("out")\nprint("err", file=sys.stderr)\nsys.exit(3)\n'
    plain = service.run(code).json()
    assert plain["outcome"] == "failed"
    assert (plain["stdout"], plain["stderr"], plain["exit_code"]) == (
        "out\n",
        "err\n",
        3,
    )
    assert "exit code 3" in plain["message"]
    assert 0 < plain["seconds"] <= plain["total_seconds"]


def test_value_stdin_and_alias(service):
    plain = service.run("len(input())", language="py3", stdin="hello\n").json()
    assert (plain["outcome"], plain["value"]) == ("ok", "5")


def test_steps_share_their_files(service):
    steps = [
        {"language": "bash", "code": "echo 42 > number.txt"},
        {"language": "python", "code": "print(int(open('number.txt').read()) + 1)"},
    ]
    assert service.post({"steps": steps}).json()["stdout"] == "43\n"


def test_files_in_and_out_as_base64(service):
    files = [{"name": "a/in.bin", "data": base64.b64encode(b"\0\xff").decode()}]
    code = "open('out.bin', 'wb').write(open('a/in.bin', 'rb').read() * 2)"
    plain = service.run(code, files=files, return_files=True).json()
    (made,) = plain["files"]
    assert (made["name"], made["size"]) == ("out.bin", 4)
    assert base64.b64decode(made["data"]) == b"\0\xff\0\xff"
    assert service.run(code, files=files).json()["files"][0]["data"] is None


def test_contents_beyond_the_cap_are_named_and_left_out(start_service):
    service = start_service(max_answer_mb=1)
    code = "open('big', 'wb').write(b'x' * 2_000_000); open('small', 'w').write('x')"
    plain = service.run(code, return_files=True).json()
    assert [(made["name"], bool(made["data"])) for made in plain["files"]] == [
        ("big", False),
        ("small", True),
    ]
    assert plain["skipped"][0]["name"] == "big"
    assert "1 MiB" in plain["skipped"][0]["reason"]


def test_files_in_by_multipart(service):
    body = {
        "code": "import os\nprint(os.path.getsize('täst/ö \"x\".bin'))",
        "files": [{"name": 'täst/ö "x".bin', "part": "first"}],
    }
    answer = requests.post(
        f"{service.url}/v1/run",
        files={
            "request": (None, json.dumps(body)),
            "first": ("x", b"y" * 20_000_000),
        },
        headers=headers(),
        timeout=60,
    )
    assert answer.json()["stdout"] == "20000000\n"


def test_large_output_keeps_to_the_budget(service):
    plain = service.run("for n in range(100_000): print(n)", output_kb=4).json()
    assert len(plain["stdout"]) < 4200
    assert plain["stdout"].startswith("0\n1\n")
    assert plain["stdout"].endswith("99999\n")
    assert plain["omitted_bytes"] > 500_000


def test_limits_can_be_lowered_and_not_raised(start_service):
    service = start_service(exec_timeout=3)
    plain = service.run("while True: pass", limits={"seconds": 1}).json()
    assert plain["outcome"] == "timeout"
    assert " 1 s" in plain["message"]
    plain = service.run("while True: pass", limits={"seconds": 60}).json()
    assert " 3 s" in plain["message"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 422, "either code or steps"),
        ({"code": " \n"}, 422, "There is no code to run"),
        ({"code": "1", "steps": []}, 422, "either code or steps"),
        ({"code": 1}, 422, "code"),
        ({"code": "1", "language": "cobol"}, 422, "no language “cobol”"),
        ({"code": "1", "nonsense": 1}, 422, "nonsense"),
        ({"code": "1", "packages": ["cowsay"]}, 422, "Packages are off here"),
        ({"code": "1", "limits": {"x": 1}}, 422, "no limits called x"),
        ({"code": "1", "limits": {"seconds": 0}}, 422, "seconds"),
        ({"code": "1", "files": [{"name": "../x", "data": ""}]}, 422, "../x"),
        ({"code": "1", "files": [{"name": "x"}]}, 422, "either data or part"),
        ({"code": "1", "files": [{"name": "x", "part": "y"}]}, 422, "no part"),
        ({"code": "1", "files": [{"name": "x", "data": "?"}]}, 422, "not base64"),
        ({"code": "1", "run_id": "../../etc"}, 422, "run_id"),
    ],
)
def test_bad_request_is_refused_in_words(service, body, status, words):
    answer = service.post(body)
    assert answer.status_code == status
    assert words in answer.json()["message"]


def test_what_is_no_json_is_refused(service):
    url = f"{service.url}/v1/run"
    for content, kind, status in (
        (b"{", "application/json", 422),
        (b'{"code": "\xff"}', "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b"print(1)", "text/plain", 415),
        (b"", "multipart/form-data", 422),
        (b"--x\r\n", "multipart/form-data; boundary=x", 422),
        (b" " * 9_000_000, "application/json", 413),
    ):
        call = headers(**{"Content-Type": kind})
        answer = requests.post(url, data=content, headers=call, timeout=60)
        assert (kind, answer.status_code) == (kind, status)
        assert answer.json()["message"]


def stream(service, code, token=None, run_id=None):
    call = headers(token, Accept="application/x-ndjson")
    body = {"code": code, "run_id": run_id}
    return requests.post(
        f"{service.url}/v1/run", json=body, headers=call, timeout=60, stream=True
    )


def test_events_come_while_the_program_runs(service):
    code = (
        "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(1.5)"
    )
    seen = []
    with stream(service, code) as answer:
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        for line in answer.iter_lines():
            seen.append((time.monotonic(), json.loads(line)))
    kinds = [event["event"] for _, event in seen]
    assert kinds[0] == "alive"
    assert kinds[-1] == "result"
    first = next(at for at, event in seen if event.get("text", "").startswith("0"))
    assert seen[-1][0] - first > 2.5
    text = "".join(e["text"] for _, e in seen if e["event"] == "text")
    assert text == "0\n1\n2\n"


def test_silent_program_gives_signs_of_life(service):
    with stream(service, "import time; time.sleep(5)") as answer:
        kinds = [json.loads(line)["event"] for line in answer.iter_lines()]
    assert kinds.count("alive") >= 2


def test_run_ends_when_the_client_of_a_stream_is_gone(service, leases_of, wait_until):
    with stream(service, SLEEPER) as answer:
        next(line for line in answer.iter_lines() if b"begun" in line)
        assert leases_of(service)
    wait_until(lambda: not leases_of(service), 15)
    wait_until(lambda: service.metric("codebox_running") == 0, 15)


def test_run_ends_when_the_client_of_an_answer_is_gone(service, leases_of, wait_until):
    with pytest.raises(requests.ReadTimeout):
        service.run(SLEEPER, timeout=2)
    wait_until(lambda: not leases_of(service), 15)
    wait_until(lambda: service.metric("codebox_running") == 0, 15)


def test_stopped_run_hands_over_what_it_has(service):
    run_id = "00000000000000aa"
    results = []

    def listen():
        with stream(service, SLEEPER, good_token("anna"), run_id) as answer:
            for line in answer.iter_lines():
                results.append(json.loads(line))
                if b"begun" in line:
                    begun.set()

    begun = threading.Event()
    listener = threading.Thread(target=listen)
    listener.start()
    assert begun.wait(30)
    url = f"{service.url}/v1/runs/{run_id}"
    other = requests.delete(url, headers=headers(good_token("bert")), timeout=30)
    assert other.status_code == 404
    own = requests.delete(url, headers=headers(good_token("anna")), timeout=30)
    assert own.status_code == 200
    listener.join(20)
    assert results[-1]["outcome"] == "cancelled"
    assert results[-1]["stdout"]["head"] == "begun\n"


def test_languages_and_packages(service):
    versions = {
        entry["name"]: entry["version"] for entry in service.get("/v1/languages").json()
    }
    assert versions["python"].startswith("3.")
    assert "rust" not in versions  # its compiler is not in this image
    (only,) = service.get("/v1/languages?filter=node").json()
    assert only["name"] == "javascript"
    some = service.get("/v1/packages?filter=pandas").json()["packages"]
    assert [entry["name"] for entry in some] == ["pandas"]
    plain = service.get("/v1/packages").json()
    assert any(entry["name"] == "numpy" for entry in plain["packages"])
    begun = time.monotonic()
    assert service.get("/v1/packages").json() == plain
    assert time.monotonic() - begun < 1


def test_ready_and_metrics(service):
    plain = service.get("/ready").json()
    assert plain["ready"]
    assert {"engine", "runtime", "image", "limits"} <= {
        e["name"] for e in plain["findings"]
    }
    service.run("print(1)")
    text = service.get("/metrics").text
    assert 'codebox_runs_total{language="python",outcome="ok"}' in text
    assert "codebox_cap_running 4.0" in text
    assert "codebox_ready_sandboxes 0.0" in text
    assert 'codebox_loop_late_seconds_bucket{le="0.1"}' in text
    assert 'codebox_loop_held_seconds_bucket{le="0.1"}' in text


def test_audit_line_tells_all_but_the_code(service):
    code = "print('a text that nobody else may read')"
    plain = service.run(code, token=good_token("anna", chat="chat-1")).json()
    line = next(
        entry for entry in service.log().splitlines() if plain["run_id"] in entry
    )
    record = json.loads(line)
    assert (record["user"], record["chat"], record["outcome"]) == (
        "anna",
        "chat-1",
        "ok",
    )
    assert record["code_bytes"] == len(code)
    assert record["image_id"].startswith("sha256:")
    assert "nobody else" not in service.log()


def test_audit_line_has_the_code_if_wanted(start_service):
    service = start_service(audit_code="true")
    service.run("print('shown')")
    assert "print('shown')" in service.log()


def test_missing_image_is_told_in_words(start_service):
    service = start_service(image_bash="run-code-no-such-image:1")
    assert service.run("print(1)").json()["outcome"] == "ok"
    plain = service.run("echo 1", language="bash").json()
    assert plain["outcome"] == "sandbox_error"
    assert "image" in plain["message"]
    ready = service.get("/ready")
    assert (ready.status_code, ready.json()["ready"]) == (503, False)
    mixed = [{"language": name, "code": ""} for name in ("python", "bash")]
    assert service.post({"steps": mixed}).status_code == 422


def test_h04_daemon_that_is_down_is_told_within_seconds(start_service, tmp_path):
    service = start_service(docker_host=f"unix://{tmp_path}/none.sock")
    begun = time.monotonic()
    plain = service.run("print(1)").json()
    assert time.monotonic() - begun < 10
    assert plain["outcome"] == "sandbox_error"
    assert "/" not in plain["message"]
    assert service.get("/ready").status_code == 503


def test_nothing_runs_before_the_sandboxes_are_proven(start_service, wait_until):
    service = start_service(self_test="true")
    answer = service.run("print(1)")
    assert answer.status_code == 503
    assert "still checking" in answer.json()["message"]
    wait_until(lambda: service.get("/ready").json()["ready"], 120)
    assert service.run("print(1)").json()["stdout"] == "1\n"


def test_nothing_runs_when_the_proof_fails(start_service, wait_until):
    service = start_service(self_test="true", runtime="runc")
    wait_until(lambda: "refuses" in service.run("1").json().get("message", ""), 90)
    assert service.metric("codebox_runs_total") == 0


def test_ready_sandboxes_wait_and_go_with_the_service(
    start_service, leases_of, wait_until
):
    service = start_service(warm_sandboxes=1)
    assert service.run("print(1)").json()["stdout"] == "1\n"
    wait_until(lambda: service.metric("codebox_ready_sandboxes") == 1, 30)
    assert len(leases_of(service)) == 1
    assert service.run("print(2)").json()["stdout"] == "2\n"
    service.stop()
    assert not leases_of(service)
