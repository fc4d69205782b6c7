"""The configuration of the proxy, and how it tells whose a request is."""

import importlib.util
import ipaddress
import re
from pathlib import Path

import pytest

from sandbox_core.egress import route_name

FOLDER = Path(__file__).resolve().parents[2] / "images/egress"


def load(name):
    """A module of the image, which is no package."""
    spec = importlib.util.spec_from_file_location(
        f"egress_image_{name}", FOLDER / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def config():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.dont_write_bytecode", True)
        yield load("egress_config")


@pytest.fixture(scope="module")
def helper():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.dont_write_bytecode", True)
        yield load("run_of_address")


def closed_networks(text):
    found = re.search("^acl closed dst (.*)$", text, re.MULTILINE)[1]
    return [ipaddress.ip_network(word) for word in found.split()]


def private_networks(text):
    return [
        ipaddress.ip_network(word) for word in re.findall("private-address: (.*)", text)
    ]


@pytest.mark.parametrize(
    "address",
    [
        *(
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.8.8.8",
            "169.254.169.254",
            "172.31.0.1",
        ),
        *(
            "192.0.0.8",
            "192.88.99.1",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
        ),
        *("255.255.255.255", "203.0.113.7", "198.51.100.9", "::", "::1", "::10.0.0.1"),
        *(
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2002:a00:1::",
        ),
        *("fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "4000::1"),
    ],
)
def test_closed_addresses_are_closed_twice(config, address):
    settings = config.Settings.of({"EGRESS_DENIED": "203.0.113.7, 198.51.100.0/24"})
    for networks in (
        closed_networks(config.squid_config(settings)),
        private_networks(config.unbound_config(settings)),
    ):
        assert any(ipaddress.ip_address(address) in network for network in networks)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "99.255.0.1", "203.0.113.8", "2600::1", "2001:4860::1", "2a00::1"],
)
def test_public_addresses_are_open(config, address):
    settings = config.Settings.of({"EGRESS_DENIED": "203.0.113.7"})
    for networks in (
        closed_networks(config.squid_config(settings)),
        private_networks(config.unbound_config(settings)),
    ):
        assert not any(ipaddress.ip_address(address) in network for network in networks)


def test_mapped_addresses_are_ipv4_to_squid_and_closed_to_the_name_server(config):
    mapped = ipaddress.ip_address("::ffff:10.0.0.1")
    squid = closed_networks(config.squid_config(config.Settings()))
    assert not any(mapped in network for network in squid)
    assert any(
        mapped in network
        for network in private_networks(config.unbound_config(config.Settings()))
    )


def test_its_own_addresses_are_closed(config):
    own = ["203.0.113.50", "2600::50"]
    for address in own:
        at = ipaddress.ip_address(address)
        text = config.squid_config(config.Settings(), own)
        assert any(at in network for network in closed_networks(text))


def test_listed_names_are_as_squid_compares_them(config):
    environ = {
        "EGRESS_ALLOWED": "PyPI.org, *.Example.com .b\u00fccher.example\nx.test."
    }
    settings = config.Settings.of(environ)
    assert settings.allowed == (
        "pypi.org",
        ".example.com",
        ".xn--bcher-kva.example",
        "x.test",
    )
    assert "acl listed dstdomain -n pypi.org .example.com" in config.squid_config(
        settings
    )
    assert "acl listed dstdomain -n nothing.invalid\n" in config.squid_config(
        config.Settings()
    )


def test_a_name_below_a_listed_one_is_left_out(config):
    text = "www.a.example .b.a.example .a.example a.example xa.example a.example .c.example"
    settings = config.Settings.of({"EGRESS_ALLOWED": text})
    assert settings.allowed == (".a.example", "xa.example", ".c.example")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("EGRESS_ALLOWED", "https://example.com"),
        ("EGRESS_ALLOWED", "10.0.0.1"),
        ("EGRESS_ALLOWED", "localhost"),
        ("EGRESS_ALLOWED", "a.example\\nhttp_access"),
        ("EGRESS_ALLOWED", "."),
        ("EGRESS_DENIED", "example.com"),
        ("EGRESS_DNS", "dns.example"),
        ("EGRESS_MB", "0"),
        ("EGRESS_CONNECTIONS", "many"),
    ],
)
def test_settings_that_cannot_be_used_are_named(config, name, text):
    with pytest.raises(config.SettingsFault, match=name):
        config.Settings.of({name: text})


def test_numbers_reach_squid(config):
    environ = {"EGRESS_MB": "3", "EGRESS_UPLOAD_MB": "5", "EGRESS_CONNECTIONS": "7"}
    text = config.squid_config(config.Settings.of(environ))
    assert "delay_parameters 1 0/3145728\n" in text
    assert "request_body_max_size 5 MB\n" in text
    assert "client_ip_max_connections 7\n" in text
    assert config.Settings.of({"EGRESS_MB": " "}) == config.Settings()


def test_whose_a_request_is_says_the_network(helper):
    def name_of(address):
        known = {
            "10.231.72.3": f"some_name.{route_name('internet', '0123456789abcdef')}"
        }
        known["10.231.72.11"] = "name.some-other-network"
        known["10.231.72.19"] = "run-code-internet-12.evil"
        try:
            return known[address]
        except KeyError:
            raise OSError from None

    def answer(line):
        return helper.answer(line, name_of)

    run = "user=0123456789abcdef tag=0123456789abcdef"
    assert answer("0 10.231.72.3 internet\n") == f"0 OK {run}"
    assert answer("7 10.231.72.3 allowlist") == "7 ERR"
    for address in ("10.231.72.11", "10.231.72.19", "10.231.72.4"):
        assert answer(f"1 {address} internet") == "1 ERR"
    assert answer("3 10.231.72.3") == "3 BH"
    assert answer("") == "0 BH"
