"""What a run may reach, and the way out that it gets: values and decisions only.

A run with a network has one of its own, with nothing on it but a proxy (images/egress). That one
decides what may be reached; everything else has no route.
"""

import ipaddress
import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "NETWORK",
    "NETWORK_MODES",
    "NO_NETWORK",
    "NO_ROUTES",
    "EgressSettings",
    "Route",
    "describe_network",
    "lower_mode",
    "may_install_in",
    "parse_subnets",
    "proxy_environment",
    "reaches_out",
    "route_name",
    "route_subnets",
]

NO_NETWORK = "none"
# From nothing to most.
NETWORK_MODES = (NO_NETWORK, "packages", "allowlist", "internet")
# In a result's evidence: the mode in which it ran.
NETWORK = "network"

# Of an engine that cannot make the network of a run.
NO_ROUTES = (
    "Programs can have a network with the container engine Docker only, so nothing was run. An "
    "administrator should use it, or set network to none."
)

_DESCRIPTIONS = {
    "allowlist": (
        "By HTTP and HTTPS programs reach hosts that an administrator has listed, and nothing "
        "else."
    ),
    "internet": (
        "Programs reach public hosts, by name and by HTTP or HTTPS on their usual ports, and "
        "nothing else."
    ),
}
_PROXY_PORT = 3128
_SUBNET_BITS = (
    29  # the host's place, the proxy, the sandbox, and no more than three others
)
_TRIES = 30


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """``container`` is the engine's name of the proxy, ``runtime`` that of a gVisor with a
    network stack of its own. ``subnets`` is the private IPv4 network of which each run gets a
    part."""

    container: str
    runtime: str
    subnets: str


@dataclass(frozen=True, slots=True)
class Route:
    """The way out of one run: the engine's name of its network, and the proxy's address."""

    network: str
    proxy: str


def lower_mode(ceiling: str, wanted: str) -> str:
    """The wanted mode, or the ceiling where that is lower; an empty wish is the ceiling."""
    if wanted not in NETWORK_MODES:
        return ceiling
    return min(ceiling, wanted, key=NETWORK_MODES.index)


def may_install_in(mode: str) -> bool:
    """Whether packages may be installed before a program of this mode."""
    return mode in NETWORK_MODES and mode != NO_NETWORK


def reaches_out(mode: str) -> bool:
    """Whether a program of this mode itself has a network."""
    return mode in ("allowlist", "internet")


def describe_network(mode: str) -> str:
    """For models: what a program of this mode reaches."""
    return _DESCRIPTIONS.get(mode, "There is no network.")


def route_name(mode: str, run_id: str) -> str:
    """The name of a run's network. The proxy reads mode and run from it
    (images/egress/run_of_address.py)."""
    return f"run-code-{mode}-{run_id}"


def parse_subnets(text: str) -> ipaddress.IPv4Network:
    """The network of a setting. Raises ValueError, in words, for one that is not private or is
    too small to be divided."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise ValueError("it is no IPv4 network such as 10.231.72.0/21") from None
    private = any(
        network.subnet_of(ipaddress.IPv4Network(block))
        for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    )
    if not private:
        raise ValueError("it is no private network: the proxy would not refuse it")
    if network.prefixlen > _SUBNET_BITS - 2:
        raise ValueError(f"it must be /{_SUBNET_BITS - 2} or larger")
    return network


def route_subnets(subnets: str) -> Iterator[tuple[str, str]]:
    """Some networks to try for a run, each with the proxy's address in it. Which are in use
    only the engine knows."""
    network = parse_subnets(subnets)
    count = 1 << (_SUBNET_BITS - network.prefixlen)
    for number in random.sample(range(count), min(count, _TRIES)):
        first = network.network_address + (number << (32 - _SUBNET_BITS))
        yield f"{first}/{_SUBNET_BITS}", str(first + 2)


def proxy_environment(proxy: str) -> dict[str, str]:
    """What tells programs to use the proxy at this address; nothing without one."""
    if not proxy:
        return {}
    address = f"http://{proxy}:{_PROXY_PORT}"
    ours = "localhost,127.0.0.1,::1"
    lower = {"http_proxy": address, "https_proxy": address, "no_proxy": ours}
    upper = {name.upper(): value for name, value in lower.items()}
    # Node.js reads the others only when it is told to.
    return {**lower, **upper, "NODE_USE_ENV_PROXY": "1"}
