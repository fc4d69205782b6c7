"""What the proxy lets through, and what it refuses however it is asked."""

import pytest

from sandbox_core.engines.docker import DockerEngine
from sandbox_core.network_runner import NetworkRunner, NetworkSettings
from sandbox_core.outcome import Outcome
from sandbox_core.pool import PoolSettings
from tests.contract.closed_world import (
    CLOSED,
    CLOSED_NAMES,
    PUBLIC,
    PUBLIC_SIX,
    opened_world,
)
from tests.contract.proxy_requests import ask, connect, get, run
from tests.contract.runs import describe


@pytest.fixture(scope="module")
def world(docker_host, image, egress_image):
    with opened_world(docker_host, image, egress_image) as world:
        yield world


@pytest.fixture(scope="module")
def internet(docker_host, image, world):
    network = NetworkSettings("internet", None, world.egress)
    pool = PoolSettings(size=0)
    engine = DockerEngine(docker_host, image)
    runner = NetworkRunner(engine, image, network=network, pool=pool)
    yield runner
    runner.close()


def test_squid_finds_its_configuration_faultless(world):
    run_id = world.api.exec_create(
        world.proxy, ["squid", "-k", "parse", "-f", "/tmp/squid.conf"]
    )
    said = world.api.exec_start(run_id["Id"]).decode()
    assert world.api.exec_inspect(run_id["Id"])["ExitCode"] == 0
    assert not [
        line for line in said.splitlines() if "WARNING" in line or "ERROR" in line
    ]


def test_r22_closed_places_stay_closed_however_they_are_asked_for(internet, world):
    from_there = (
        "import socket\nfor at in {places!r}: socket.create_connection((at, 80), 3)"
    )
    assert world.ask_from_proxy(from_there.format(places=CLOSED)) == ""
    world.hits()
    forms = [f"[{at}]" if ":" in at else at for at in CLOSED]
    # Of 10.99.0.10 and of loopback, as browsers and C libraries read them.
    forms += ["174260234", "0x0a63000a", "0x0a.0x63.0.10", "012.0143.0.012", "10.99.10"]
    forms += ["127.0.0.1", "127.1", "0", "0.0.0.0", "[::]", "[::1]", "2130706433"]
    forms += ["[::ffff:10.99.0.10]", "[::10.99.0.10]", "[fe80::1%25eth0]", "224.0.0.1"]
    forms += ["10.99.0.10.", "PROXY", PUBLIC, f"[{PUBLIC_SIX}]"]
    local = ["localhost", "localhost.", "egress", "codebox", "open-webui"]
    names = [*CLOSED_NAMES, "alias.example", "loopback.example", "zero.example"]
    names += ["mapped.example", "multicast.example", "x.localhost", "self.example"]
    places = [*forms, *local, *names]
    requests = [get(f"http://{place}/") for place in places]
    requests += [connect(f"{place}:443") for place in places]
    _, codes = ask(internet, requests)
    let = [
        (request.split("\r\n")[0], found)
        for request, found in zip(requests, codes, strict=True)
        if not found or any(code < 400 for code in found)
    ]
    assert let == []
    assert world.hits() == []


def test_tricks_with_requests_do_not_help(internet, world):
    world.hits()
    tricks = [
        get("http://public.example:8080/"),
        get("http://public.example:22/"),
        get("https://public.example/"),
        get("ftp://public.example/"),
        get("http://user:pass@10.99.0.10/"),
        get("http://public.example@10.99.0.10/"),
        get("http://public.example:80@10.99.0.10/"),
        get("http://public.example%2f@10.99.0.10/"),
        get("http://10.99.0.10%00.public.example/"),
        get("http://bücher.example/"),
        get("/", host="10.99.0.10"),
        get("//10.99.0.10/"),
        get("/squid-internal-mgr/menu", host="PROXY:3128"),
        get("http://PROXY:3128/squid-internal-mgr/menu"),
        get("cache_object://PROXY/menu"),
        get("urn:public.example"),
        connect("public.example:22"),
        connect("public.example:80"),
        connect("public.example:8080"),
        connect("user:pass@10.99.0.10:443"),
        connect("http://10.99.0.10:443/"),
        "CONNECT 10.99.0.10:443 HTTP/0.9\r\n\r\n",
    ]
    fine = [
        # Squid asks where the request line says, and tells that host its own name.
        get("http://public.example/mismatch", host="10.99.0.10"),
        get("http://PUBLIC.Example./dots"),
        get("http://xn--bcher-kva.example/punycode"),
        get("http://10.99.0.10\\@public.example/user"),
        get("http://public.example/folded", host="10.99.0.10\r\n 10.99.0.10"),
        connect("public.example:443@10.99.0.10:443"),
        # The second request of a connection is as any other.
        get("http://public.example/first").replace("close", "keep-alive")
        + get("http://10.99.0.10/second"),
    ]
    result, codes = ask(internet, [*tricks, *fine])
    let = [
        (trick, found)
        for trick, found in zip(tricks, codes, strict=False)
        if any(code < 400 for code in found)
    ]
    assert let == []
    assert codes[len(tricks) :] == [*([200] for _ in fine[1:]), [200, 403]]
    mine = [entry for entry in world.log() if entry["run"] == result.run_id]
    assert {entry["address"] for entry in mine} == {PUBLIC, "-"}
    hits = {hit["path"]: (hit["address"], hit["host"]) for hit in world.hits()}
    paths = "mismatch", "dots", "punycode", "user", "folded", "first"
    assert sorted(hits) == sorted(f"/{path}" for path in paths)
    assert {address for address, _ in hits.values()} == {PUBLIC}
    hosts = {host.lower().rstrip(".") for _, host in hits.values()}
    assert hosts == {"public.example", "xn--bcher-kva.example"}


def test_redirects_lead_nowhere_else(internet, world):
    world.hits()
    code = """
import urllib.error, urllib.request
for way in ("to?url=http://10.99.0.10/", "to?url=http://closed2.example/", "chain/8",
            "chain/500", "to?url=http://PUBLIC.example:8080/", "to?url=file:///etc/passwd"):
    try:
        print(way, urllib.request.urlopen("http://public.example/" + way, timeout=15).read())
    except OSError as error:
        print(way, getattr(error, "code", error))
"""
    result = run(internet, code)
    assert result.outcome is Outcome.OK, describe(result)
    lines = str(result.stdout).splitlines()
    assert [line.rpartition(" ")[2] for line in lines[:3]] == ["403", "502", "403"]
    assert {hit["address"] for hit in world.hits()} == {PUBLIC}


def test_a_name_that_changes_its_address_is_never_followed_home(internet, world):
    world.hits()
    code = """
import collections, time, urllib.error, urllib.request
seen = collections.Counter()
end = time.monotonic() + 4
while time.monotonic() < end:
    for number in range(20):
        try:
            urllib.request.urlopen(f"http://{number}.rebind.example/", timeout=10).close()
            seen["ok"] += 1
        except urllib.error.HTTPError as error:
            seen[error.code] += 1
print(dict(seen))
"""
    result = run(internet, code)
    assert result.outcome is Outcome.OK, describe(result)
    # Both answers were given, and one of them was as good as none.
    assert "'ok'" in str(result.stdout)
    assert "502" in str(result.stdout)
    assert {hit["address"] for hit in world.hits()} == {PUBLIC}
