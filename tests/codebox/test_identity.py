"""Whose tokens are good, and what a bad one learns: nothing."""

import socket
import statistics
import time
from contextlib import closing

import docker
import pytest
import requests

from tests.codebox.tokens import SECRET, good_token, headers, signed, token

NOW = int(time.time())
# Everything in the sandbox that a token could be found in, and places to connect to.
PROBE = """
import glob, os, socket
for name in ["/proc/self/environ", *glob.glob("/proc/[0-9]*/*")]:
    try:
        print(name, open(name, errors="replace").read(4000))
    except OSError:
        continue
for place in PLACES:
    try:
        socket.create_connection(place, timeout=3).close()
        print("REACHED", place)
    except OSError:
        print("closed", place)
"""
LATER = NOW + 3600
OTHER_SECRET = "another-secret-32-bytes-long-yyyy"


def unsigned(text):
    return text.rpartition(".")[0] + "."


BAD = {
    "A02 expired": lambda: token({"id": "u1", "exp": int(time.time()) - 120}),
    "A04 wrong secret": lambda: token({"id": "u1", "exp": LATER}, OTHER_SECRET),
    "A05 none": lambda: token({"id": "u1", "exp": LATER}, alg="none"),
    "A05 None": lambda: token({"id": "u1", "exp": LATER}, alg="None"),
    "A05 NONE": lambda: token({"id": "u1", "exp": LATER}, alg="NONE"),
    "A05 without signature": lambda: unsigned(good_token()),
    "A05 without any dot": lambda: good_token().replace(".", ""),
    "other algorithm": lambda: token({"id": "u1", "exp": LATER}, alg="HS512"),
    "A08 no exp": lambda: token({"id": "u1"}),
    "exp as text": lambda: token({"id": "u1", "exp": str(LATER)}),
    "exp true": lambda: token({"id": "u1", "exp": True}),
    "exp infinite": lambda: token({"id": "u1", "exp": float("inf")}),
    "exp no number": lambda: token({"id": "u1", "exp": float("nan")}),
    "exp list": lambda: token({"id": "u1", "exp": [LATER]}),
    "not yet": lambda: good_token(nbf=LATER),
    "made in the future": lambda: good_token(iat=LATER),
    "no id": lambda: token({"exp": LATER}),
    "empty id": lambda: good_token(""),
    "id of blanks": lambda: good_token("  "),
    "id no text": lambda: good_token(1),
    "id list": lambda: good_token(["u1"]),
    "id null": lambda: good_token(None),
    "id with line end": lambda: good_token("u1\nu2"),
    "id too long": lambda: good_token("u" * 129),
    "two ids": lambda: good_token(sub="u2"),
    "other audience": lambda: good_token(aud="open-webui"),
    "no bearer": lambda: "",
    "no token": lambda: "abc",
    "very long": lambda: good_token("u" * 20_000),
    "claims no object": lambda: token([1, 2]),
    "claims no JSON": lambda: signed(b'{"alg":"HS256"}', b"no JSON"),
    "claims too deep": lambda: signed(b'{"alg":"HS256"}', b"[" * 5000),
    "head no object": lambda: signed(b'["HS256"]', b"{}"),
    "head too deep": lambda: signed(b"[" * 5000, b"{}"),
    "own key in the head": lambda: token(
        {"id": "u1", "exp": LATER}, OTHER_SECRET, jwk={"kty": "oct", "k": "eA"}
    ),
    "key from elsewhere": lambda: token(
        {"id": "u1", "exp": LATER}, OTHER_SECRET, jku="http://127.0.0.1:9/", kid="../x"
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_token_is_refused_and_told_nothing(service, name):
    runs = service.metric("codebox_runs_total")
    text = BAD[name]()
    answer = requests.post(
        f"{service.url}/v1/run",
        json={"code": "print(1)"},
        headers={"Authorization": f"Bearer {text}"},
        timeout=30,
    )
    assert (answer.status_code, answer.json()) == (401, {"message": "not authorised"})
    assert answer.headers["www-authenticate"] == "Bearer"
    assert service.metric("codebox_runs_total") == runs
    assert len(text) < 12 or text not in service.log()


def test_a01_good_token_runs(service):
    answer = service.run("print(1)")
    assert (answer.status_code, answer.json()["stdout"]) == (200, "1\n")


@pytest.mark.parametrize("claim", [{"sub": "u1"}, {"id": "u1", "sub": "u1"}])
def test_id_and_sub_mean_the_same(service, claim):
    text = token({"exp": int(time.time()) + 60, "aud": ["x", "codebox"], **claim})
    assert service.get("/v1/languages", text).status_code == 200


def test_clocks_may_differ_by_half_a_minute(service):
    now = int(time.time())
    late = token({"id": "u1", "exp": now - 15})
    early = token({"id": "u1", "exp": now + 60, "nbf": now + 15, "iat": now + 15})
    assert service.get("/v1/languages", late).status_code == 200
    assert service.get("/v1/languages", early).status_code == 200


def test_token_for_one_request_is_good_once(service):
    once = good_token(jti="0123456789abcdef", aud="codebox")
    assert service.get("/v1/languages", once).status_code == 200
    assert service.get("/v1/languages", once).status_code == 401


def test_a13_token_elsewhere_is_no_token(service):
    text = good_token("somebody-in-a-query")
    url = f"{service.url}/v1/languages"
    answers = [
        requests.get(url, params={"token": text, "access_token": text}, timeout=30),
        requests.get(url, cookies={"token": text}, timeout=30),
        requests.get(url, headers={"Authorization": f"Token {text}"}, timeout=30),
        requests.get(url, headers={"X-OpenWebUI-User-Jwt": text}, timeout=30),
    ]
    assert [answer.status_code for answer in answers] == [401] * 4
    assert text not in service.log()


def test_two_authorization_headers_are_refused(service):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
    connection.putrequest("GET", "/v1/languages")
    for _ in range(2):
        connection.putheader("Authorization", f"Bearer {good_token()}")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_every_call_but_health_wants_a_token(service):
    assert requests.get(f"{service.url}/health", timeout=30).status_code == 200
    for path in ("/ready", "/metrics", "/v1/languages", "/v1/packages", "/mcp", "/x"):
        answer = requests.get(service.url + path, timeout=30)
        assert (path, answer.status_code) == (path, 401)


def test_wrong_secret_takes_as_long_as_an_old_token(service):
    with requests.Session() as session:
        times = {name: [] for name in ("A02 expired", "A04 wrong secret")}
        for _ in range(40):
            for name, seen in times.items():
                call = headers(BAD[name]())
                begun = time.perf_counter()
                session.get(f"{service.url}/v1/languages", headers=call, timeout=30)
                seen.append(time.perf_counter() - begun)
    expired, wrong = (statistics.median(seen) for seen in times.values())
    assert abs(expired - wrong) < 0.02


def test_log_has_reasons_and_no_secret(service):
    requests.get(
        f"{service.url}/ready", headers=headers(BAD["A04 wrong secret"]()), timeout=30
    )
    log = service.log()
    assert "token refused: bad_signature " in log
    assert SECRET not in log
    assert "eyJ" not in log


def test_bad_tokens_are_limited_by_address_and_good_ones_are_not(start_service):
    service = start_service(bad_tokens_per_minute=5)
    bad = BAD["A04 wrong secret"]()
    statuses = [service.get("/ready", bad).status_code for _ in range(8)]
    assert statuses == [401] * 5 + [429] * 3
    assert service.get("/v1/languages").status_code == 200


def test_header_of_open_webui_says_who_the_user_is(start_service):
    service = start_service(owui_user_jwt_secret=OTHER_SECRET)
    claims = {"sub": "u7", "iss": "open-webui", "exp": int(time.time()) + 300}
    url = f"{service.url}/v1/languages"

    def status(text, **more):
        call = {"X-OpenWebUI-User-Jwt": text, **more}
        return requests.get(url, headers=call, timeout=30).status_code

    good = token(claims, OTHER_SECRET)
    assert status(good) == 200
    assert status(good, **headers()) == 200
    assert status(good, Authorization="Bearer bad") == 401
    assert status(token(claims)) == 401
    assert status(token({**claims, "iss": "else"}, OTHER_SECRET)) == 401
    assert status(token({**claims, "exp": 1}, OTHER_SECRET), **headers()) == 401


def test_a14_a_program_reaches_no_service_and_finds_no_token(service):
    """Neither this service, nor what listens where sandboxes would find their host."""
    with closing(docker.from_env()) as client:
        network = client.networks.get("bridge").attrs["IPAM"]["Config"][0]
    bearer = good_token()
    with socket.create_server((network["Gateway"], 0)) as on_the_bridge:
        places = [("127.0.0.1", service.port), on_the_bridge.getsockname()[:2]]
        code = PROBE.replace("PLACES", repr(places))
        plain = service.run(code, token=bearer).json()
    assert plain["outcome"] == "ok", plain
    assert plain["stdout"].count("closed") == 2
    assert "REACHED" not in plain["stdout"]
    for secret in (bearer, bearer.rpartition(".")[2], SECRET):
        assert secret not in plain["stdout"]
