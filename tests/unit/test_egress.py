"""What a run may reach: the modes, the networks of runs, and what programs are told."""

import ipaddress
import json

import pytest

from sandbox_core.deadline import Deadline
from sandbox_core.egress import (
    NETWORK_MODES,
    NO_ROUTES,
    EgressSettings,
    describe_network,
    lower_mode,
    may_install_in,
    proxy_environment,
    reaches_out,
    route_subnets,
)
from sandbox_core.engines.podman import PodmanEngine
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.errors import EngineError
from sandbox_core.hints import hint_for
from sandbox_core.job import boot_frame
from sandbox_core.limits import Limits
from sandbox_core.models import KeptText, RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.wire import encode_request


def test_the_lower_of_two_modes_counts():
    for high, ceiling in enumerate(NETWORK_MODES):
        for low, wish in enumerate(NETWORK_MODES):
            assert lower_mode(ceiling, wish) == NETWORK_MODES[min(high, low)]
        assert lower_mode(ceiling, "") == ceiling
        assert lower_mode(ceiling, "all of it") == ceiling


def test_what_each_mode_means():
    assert [mode for mode in NETWORK_MODES if reaches_out(mode)] == [
        "allowlist",
        "internet",
    ]
    assert [mode for mode in NETWORK_MODES if not may_install_in(mode)] == ["none"]
    assert not reaches_out("")
    assert (
        describe_network("none")
        == describe_network("packages")
        == "There is no network."
    )
    assert "listed" in describe_network("allowlist")
    assert "public hosts" in describe_network("internet")


def test_networks_of_runs_are_parts_of_the_setting():
    whole = ipaddress.ip_network("10.231.72.0/21")
    pairs = list(route_subnets(str(whole)))
    assert len(dict(pairs)) == 30
    for subnet, proxy in pairs:
        network = ipaddress.ip_network(subnet)
        assert network.subnet_of(whole)
        assert network.prefixlen == 29
        assert ipaddress.ip_address(proxy) == network.network_address + 2
    assert len(list(route_subnets("10.231.72.0/27"))) == 4


def test_programs_are_told_of_the_proxy_and_of_nothing_without_one():
    told = proxy_environment("10.231.72.2")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        assert told[name] == "http://10.231.72.2:3128"
    assert told["no_proxy"] == told["NO_PROXY"] == "localhost,127.0.0.1,::1"
    assert proxy_environment("") == {}

    def environment(proxy):
        return boot_frame(Limits(), 10.0, proxy=proxy).decode("latin-1")

    assert "10.231.72.2:3128" in environment("10.231.72.2")
    assert "3128" not in environment("")


def test_what_was_refused_is_explained_by_the_mode():
    def hint(mode, text):
        result = RunResult("r", Outcome.FAILED, exit_code=1, stderr=KeptText(text))
        return hint_for(
            RunResult.from_plain(result.to_plain() | {"evidence": {"network": mode}})
        )

    refused = "OSError: Tunnel connection failed: 403 Forbidden"
    direct = "OSError: [Errno 101] Network is unreachable"
    for text in (refused, direct):
        assert "administrator has listed" in hint("allowlist", text)
        assert "public hosts" in hint("internet", text)
    assert "no network in the sandbox" in hint("none", direct)
    assert hint("internet", "ZeroDivisionError: division by zero") == ""


def test_a_request_carries_its_wish():
    request = RunRequest((Step("python", "1"),), network="allowlist")
    assert RunRequest.from_plain(request.to_plain()) == request
    plain, _ = encode_request(request)
    assert json.loads(json.dumps(plain))["network"] == "allowlist"
    assert "network" not in encode_request(RunRequest((Step("python", "1"),)))[0]


@pytest.mark.parametrize("kind", [PodmanEngine, RunscEngine])
def test_other_engines_have_no_way_out(kind):
    way = EgressSettings("c", "r", "10.0.0.0/24")
    with pytest.raises(EngineError) as raised:
        kind().open_route(way, "internet", "1", "o", 0.0, Deadline(1))
    assert str(raised.value) == NO_ROUTES
