"""A small world for tests of the network: a container with the addresses of a public site, of
houses, clouds and tunnels, with a web server and a name server on all of them; and the real proxy
beside it, on networks that lead nowhere else.

Every address is one of the world's own loopback interface. So a proxy that lets through what it
should refuse reaches the world, which tells, and nothing beyond it.
"""

import json
import secrets
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker

from sandbox_core.egress import EgressSettings
from tests.contract.package_index import as_tar, make_network

__all__ = [
    "CLOSED",
    "CLOSED_NAMES",
    "OTHER",
    "PUBLIC",
    "PUBLIC_SIX",
    "World",
    "opened_world",
]

READY_SECONDS = 30
# The two ends of the cable between the world and the proxy.
LINK = ("10.254.77.1", "10.254.77.2")
LINK_SIX = ("2001:db8:ffff::1", "2001:db8:ffff::2")
PUBLIC, OTHER, PUBLIC_SIX = "203.0.113.10", "203.0.113.11", "2001:db8:77::10"
DENIED = "203.0.113.99"
# What no proxy of ours may reach: private networks, those of carriers and of benchmarks,
# metadata services, unique-local addresses, and IPv6 forms of 10.99.0.10 (NAT64, 6to4, Teredo).
CLOSED = (
    "10.99.0.10",
    "100.64.77.1",
    "169.254.169.254",
    "172.31.77.1",
    "192.168.77.10",
    "198.18.77.1",
    DENIED,
    "fc00:77::10",
    "fd00:ec2::254",
    "64:ff9b::a63:a",
    "64:ff9b:1::a63:a",
    "2002:a63:a::1",
    "2001::a63:a",
)
ADDRESSES = (PUBLIC, OTHER, PUBLIC_SIX, *CLOSED)
SITE = {
    "public.example": [PUBLIC],
    "www.public.example": [PUBLIC],
    "other.example": [OTHER],
    "xn--bcher-kva.example": [PUBLIC],
    "six.example": [PUBLIC_SIX],
    "mixed.example": [PUBLIC, "10.99.0.10", "fd00:ec2::254"],
    "loopback.example": ["127.0.0.1", "::1"],
    "zero.example": ["0.0.0.0"],
    "self.example": [LINK[1]],
    "mapped.example": ["::ffff:10.99.0.10"],
    "multicast.example": ["224.0.0.1", "ff02::1"],
}
CLOSED_NAMES = {f"closed{number}.example": [at] for number, at in enumerate(CLOSED)}
NAMES = SITE | CLOSED_NAMES
PROGRAM = Path(__file__).with_name("world_program.py").read_bytes()
# Two further names are answered by the program itself: alias.example, which is a CNAME of the first
# closed name, and whatever ends in rebind.example, which is public and private in turn.


@dataclass(frozen=True)
class World:
    """``egress`` is as in NetworkSettings. ``hits`` gives the (address, port) of all connections
    since it was asked before, ``log`` the lines of the proxy's access log."""

    egress: EgressSettings
    proxy: str
    api: object
    world: str
    seen: list

    def hits(self):
        lines = self.api.logs(self.world, stderr=False).decode().splitlines()
        new = [json.loads(line) for line in lines[len(self.seen) :]]
        self.seen.extend(new)
        return new

    def log(self):
        lines = self.api.logs(self.proxy, stderr=False).decode().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def ask_from_proxy(self, code):
        """Run Python where the proxy is, but without it."""
        run = self.api.exec_create(self.proxy, ["python3", "-c", code])
        return self.api.exec_start(run["Id"]).decode()


@contextmanager
def opened_world(docker_host, image, egress_image, **environment):
    """A World whose networks and containers are gone afterwards."""
    api = docker.APIClient(docker_host, timeout=60)
    name = f"run-code-test-egress-{secrets.token_hex(4)}"
    with ExitStack() as undo:
        undo.callback(api.close)
        network = make_network(api, undo, f"{name}-uplink")
        files = {"world.py": PROGRAM, **certificate()}
        command = ["python3", "/world.py", json.dumps(NAMES)]
        world = start(api, undo, image, "none", files, command=command)
        for address in ADDRESSES:
            bits = "/128" if ":" in address else "/32"
            in_network(
                pid_of(api, world), "address", "add", address + bits, "dev", "lo"
            )
        proxy = start(
            api,
            undo,
            egress_image,
            network,
            name=name,
            environment={"EGRESS_DNS": LINK[0], "EGRESS_DENIED": DENIED} | environment,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            tmpfs={"/tmp": ""},
        )
        join(pid_of(api, world), pid_of(api, proxy))
        wait_for_proxy(api, name)
        egress = EgressSettings(name, "runsc-net", "10.231.72.0/21")
        yield World(egress, name, api, world, [])


def start(api, undo, image, network, files=None, **options):
    """The id of a container, with IPv6 although its network has none."""
    for_host = ("cap_drop", "security_opt", "read_only", "tmpfs")
    host_config = api.create_host_config(
        network_mode=network,
        sysctls={"net.ipv6.conf.all.disable_ipv6": "0"},
        **{key: options.pop(key) for key in for_host if key in options},
    )
    made = api.create_container(image, host_config=host_config, **options)["Id"]
    undo.callback(api.remove_container, made, force=True, v=True)
    if files:
        api.put_archive(made, "/", as_tar(files))
    api.start(made)
    return made


def join(world, proxy):
    """A cable between two network namespaces, which is all of the proxy's Internet."""
    cable = ("type", "veth", "peer", "name", "world", "netns", str(proxy))
    in_network(world, "link", "add", "proxy", *cable)
    for pid, name, own in ((world, "proxy", 0), (proxy, "world", 1)):
        in_network(pid, "address", "add", f"{LINK[own]}/30", "dev", name)
        in_network(pid, "address", "add", f"{LINK_SIX[own]}/64", "dev", name, "nodad")
        in_network(pid, "link", "set", name, "up")
    for address in ADDRESSES:
        via = LINK_SIX[0] if ":" in address else LINK[0]
        in_network(proxy, "route", "add", address, "via", via)


def in_network(pid, *arguments):
    command = ["nsenter", "--target", str(pid), "--net", "ip", *arguments]
    subprocess.run(command, check=True, timeout=10, capture_output=True)


def pid_of(api, container):
    return api.inspect_container(container)["State"]["Pid"]


def certificate():
    """A key and a certificate of the world's, which nobody need believe."""
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-newkey", "ec"),
            *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=world"),
            *("-days", "2", "-keyout", "-", "-out", "-"),
        ],
        check=True,
        timeout=20,
        capture_output=True,
    )
    return {"world.pem": made.stdout}


def wait_for_proxy(api, name):
    """Until squid listens, as its log says."""
    deadline = time.monotonic() + READY_SECONDS
    while b"Accepting HTTP" not in api.logs(name, tail=40):
        assert time.monotonic() < deadline, api.logs(name).decode()
        time.sleep(0.1)
