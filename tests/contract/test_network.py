"""Programs with a network: they reach the proxy, by their usual means, and nothing beside it."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import docker
import pytest

from sandbox_core.audit import audit_record
from sandbox_core.deadline import Deadline
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.errors import EngineError
from sandbox_core.hints import hint_for
from sandbox_core.leases import current_owner
from sandbox_core.network_proof import examine_network
from sandbox_core.network_runner import NetworkRunner, NetworkSettings
from sandbox_core.outcome import Outcome
from sandbox_core.pool import PoolSettings
from sandbox_core.reaper import reap
from tests.contract.closed_world import (
    CLOSED,
    OTHER,
    PUBLIC,
    PUBLIC_SIX,
    opened_world,
)
from tests.contract.elsewhere import NAMES, PROBE, opened_elsewhere, own_addresses
from tests.contract.proxy_requests import ASK, ask, connect, get, run
from tests.contract.runs import describe, request_of

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def world(docker_host, image, egress_image):
    limits = {"EGRESS_MB": "4", "EGRESS_CONNECTIONS": "24"}
    # The first is below the last: squid would not start with both.
    names = "www.bücher.example, public.example, .bücher.example"
    listed = {"EGRESS_ALLOWED": names}
    with opened_world(docker_host, image, egress_image, **limits, **listed) as world:
        yield world


@pytest.fixture(scope="module")
def engine(docker_host, image):
    return DockerEngine(docker_host, image)


@pytest.fixture(scope="module")
def open_runner(engine, image, world):
    runners = []

    def open_it(mode, egress=None):
        network = NetworkSettings(mode, None, egress or world.egress)
        pool = PoolSettings(size=0)
        runners.append(NetworkRunner(engine, image, network=network, pool=pool))
        return runners[-1]

    yield open_it
    for runner in runners:
        runner.close()
    owner = current_owner()
    left = [lease for lease in engine.leftovers() if lease.owner == owner]
    assert not [lease for lease in left if lease.is_network]


@pytest.fixture(scope="module")
def internet(open_runner):
    return open_runner("internet")


def test_usual_clients_find_the_proxy_and_public_names(internet, world):
    world.hits()
    code = (
        "curl -sS http://public.example/a\ncurl -sSk https://other.example/b\n"
        "python3 -c \"import requests; print(requests.get('http://six.example/c').text)\"\n"
        "curl -sS http://user:secret@public.example/d\n"
        "curl -sS http://mixed.example/e\n"
    )
    result = run(internet, code, language="bash")
    assert result.outcome is Outcome.OK, describe(result)
    assert '"address": "203.0.113.10"' in str(result.stdout)
    seen = [(hit["address"], hit["port"], hit["path"]) for hit in world.hits()]
    assert seen == [
        (PUBLIC, 80, "/a"),
        (OTHER, 443, "/b"),
        (PUBLIC_SIX, 80, "/c"),
        (PUBLIC, 80, "/d"),
        (PUBLIC, 80, "/e"),
    ]
    # Nothing of the house goes along.
    assert "10.231." not in str(result.stdout)
    assert "Via" not in str(result.stdout)


def test_the_access_log_and_the_audit_line_have_the_run_in_common(internet, world):
    forged = get("http://public.example/", Proxy_Authorization="Basic b3RoZXI6eA==")
    request = request_of([("python", ASK.format(requests=[forged]))], seconds=20)
    result = internet.run(request)
    line = audit_record(request, result)
    assert line["network"] == "internet"
    mine = [entry for entry in world.log() if entry["run"] == line["run"]]
    assert [(entry["url"], entry["status"]) for entry in mine] == [
        ("http://public.example/", 200)
    ]
    assert all(len(entry["run"]) == 16 for entry in world.log())


def test_only_listed_names_in_the_mode_allowlist(open_runner, internet, world):
    listed = ["public.example", "PUBLIC.example.", "xn--bcher-kva.example"]
    refused = ["other.example", "www.public.example", "notpublic.example", PUBLIC]
    refused += ["10.99.0.10", "closed0.example", f"[{PUBLIC_SIX}]"]
    places = [*listed, *refused]
    requests = [get(f"http://{place}/") for place in places]
    requests += [connect(f"{place}:443") for place in places]
    expected = 2 * [*([200] for _ in listed), *([403] for _ in refused)]
    # By the administrator's choice, by that of a user, and against that of one.
    allowlist = open_runner("allowlist")
    for runner, wish in (
        (allowlist, ""),
        (internet, "allowlist"),
        (allowlist, "internet"),
    ):
        result, codes = ask(runner, requests, wish)
        assert codes == expected
        assert result.evidence["network"] == "allowlist"
    world.hits()


def test_r22_nothing_is_reached_but_the_proxy(internet, world):
    code = """
import os, re, socket
proxy = re.search("//(.*):", os.environ["http_proxy"])[1]
start = proxy.rpartition(".")
near = [f"{start[0]}.{number}" for number in range(int(start[2]) - 2, int(start[2]) + 6)]
places = PLACES + [(at, 80) for at in near] + [(proxy, port) for port in (22, 53, 3128)]
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect((proxy, 9))
print(own.getsockname()[0] not in near, sorted(n for _, n in socket.if_nameindex()))
six = {line.split()[0] for line in open("/proc/net/if_inet6")}
print(six <= {"00000000000000000000000000000001"})
"""
    code += PROBE.format(places="@").replace("'@'", "places")
    with opened_elsewhere() as elsewhere:
        places = [*elsewhere, *own_addresses(elsewhere[0][1])]
        places += [(address, 80) for address in (PUBLIC, PUBLIC_SIX, *CLOSED)]
        places += [(name, 80) for name in (*NAMES, "public.example")]
        places += [(f"fe80::{number}%eth0", 80) for number in (1, 2, 3)]
        result = run(internet, code.replace("PLACES", repr(places)))
    assert result.outcome is Outcome.OK, describe(result)
    about, six, *said = str(result.stdout).splitlines()
    assert about == "False ['eth0', 'lo']"
    assert six == "True"
    opened = [line for line in said if not line.startswith("closed ")]
    assert len(said) == len(places) + 11
    assert len(opened) == 1, opened
    assert opened[0].endswith(" 3128")


def test_less_is_possible_and_then_there_is_nothing(internet):
    code = "import os, socket\nprint([n for _, n in socket.if_nameindex()])\n"
    code += "print([name for name in os.environ if 'proxy' in name.lower()])\n"
    for wish in ("none", "packages"):
        result = run(internet, code, network=wish)
        assert str(result.stdout) == "['lo']\n[]\n", describe(result)
        assert result.evidence["network"] == wish


def test_sandboxes_do_not_reach_each_other(internet):
    listen = """
import socket
server = socket.create_server(("", 8000))
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.connect(("192.0.2.1", 9))
print("at", own.getsockname()[0], flush=True)
server.settimeout(4)
try:
    print(server.accept())
except TimeoutError:
    print("nobody came")
"""
    told = []
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(
            run, internet, listen, "", lambda event: told.append(event.text)
        )
        deadline = time.monotonic() + 20
        while "\n" not in "".join(told):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        address = "".join(told).split()[1]
        second = run(internet, PROBE.format(places=[(address, 8000)]))
        listener = first.result()
    assert str(second.stdout).startswith(f"closed {address}"), describe(second)
    assert str(listener.stdout).endswith("nobody came\n"), describe(listener)


def test_bytes_and_connections_of_a_run_have_an_end(internet):
    code = """
import re, os, socket, time, urllib.request
got = 0
try:
    for _ in range(4):
        answer = urllib.request.urlopen("http://public.example/big?bytes=1500000", timeout=2)
        while part := answer.read(65536):
            got += len(part)
except OSError as error:
    print(type(error).__name__)
print(got)
proxy = re.search("//(.*):", os.environ["http_proxy"])[1]
links = []
for _ in range(60):
    try:
        link = socket.create_connection((proxy, 3128), 2)
        link.sendall(b"CONNECT public.example:443 HTTP/1.1\\r\\n\\r\\n")
        link.settimeout(2)
        if link.recv(100).startswith(b"HTTP/1.1 200"):
            links.append(link)
    except OSError:
        pass
print(len(links))
"""
    result = run(internet, code)
    said = str(result.stdout).splitlines()
    assert said[0] == "TimeoutError", describe(result)
    assert 1_500_000 < int(said[1]) <= 4 * MEBIBYTE
    assert 10 <= int(said[2]) <= 25
    # Another run has its own.
    again = run(
        internet,
        "import requests\nprint(len(requests.get('http://public.example/big?bytes=1500000').content))",
    )
    assert str(again.stdout) == "1500000\n", describe(again)


def test_what_is_refused_is_explained(open_runner):
    code = "import urllib.request\nurllib.request.urlopen('https://10.99.0.10/')\n"
    result = run(open_runner("allowlist"), code)
    assert result.outcome is Outcome.FAILED
    assert "an administrator has listed" in hint_for(result)


def test_without_the_proxy_nothing_runs(open_runner, engine, world):
    runner = open_runner("internet", replace(world.egress, container="no-such-proxy"))
    result = run(runner, "print(1)")
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "proxy to the network is not running" in result.message
    plain = run(runner, "print(1)", network="none")
    assert str(plain.stdout) == "1\n"


def test_the_doctor_looks_through_the_proxy(internet, open_runner, world):
    found = examine_network(internet)
    assert [(entry.name, entry.ok) for entry in found] == [("network-proxy", True)]
    away = open_runner("internet", replace(world.egress, container="no-such-proxy"))
    (finding,) = examine_network(away)
    assert not finding.ok
    assert "not running" in finding.text
    assert examine_network(open_runner("packages")) == []


def test_networks_of_the_dead_are_removed(engine, world, docker_host):
    owner = current_owner()

    def open_route(number, owner=owner, subnets=world.egress.subnets):
        way = replace(world.egress, subnets=subnets)
        run_id, until = f"feedface0000000{number}", time.time() + 60
        return engine.open_route(way, "internet", run_id, owner, until, Deadline(15))

    machine = owner.partition("/")[0]
    route = open_route(0, owner=f"{machine}/999999999/1")
    removed = [entry for entry in reap(engine, time.time()) if entry.is_network]
    assert "feedface00000000" in [entry.run_id for entry in removed]
    api = docker.APIClient(docker_host)
    assert api.networks(names=[route.network]) == []
    api.close()
    engine.close_route(route)  # gone already is fine
    routes = [open_route(number, subnets="10.231.71.0/27") for number in range(1, 5)]
    try:
        with pytest.raises(EngineError, match="no free network"):
            open_route(5, subnets="10.231.71.0/27")
    finally:
        for route in routes:
            engine.close_route(route)
