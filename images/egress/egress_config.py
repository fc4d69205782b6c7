"""The configurations of squid and unbound, made from the environment: pure functions.

An address is looked at twice. unbound takes every address that is not public out of the answers
of name servers, so squid never hears of one, however often it asks and whatever the answer was
before (DNS rebinding). squid itself refuses such addresses again, all addresses in place of
names, all ports but 80 and 443, and everything that does not come from a sandbox.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["Settings", "SettingsFault", "squid_config", "unbound_config"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PORT = 3128
MEBIBYTE = 1 << 20
# IANA's registries of special-purpose addresses, without those for documentation. IPv6
# forms that lead to an IPv4 address are among them, whatever that address is.
CLOSED_IPV4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/3",
)
MAPPED_IPV4 = ipaddress.IPv6Network("::ffff:0:0/96")
# All but 2000::/3, the addresses that are given out; and of these, tunnels to IPv4 addresses
# (Teredo and other protocols, 6to4). ::/3 holds NAT64 and mapped IPv4 addresses.
CLOSED_IPV6 = ("::/3", "4000::/2", "8000::/1", "2001::/23", "2002::/16")

_NAME = re.compile(r"\.?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z][a-z0-9-]*")

_UNBOUND = """\
server:
  interface: 127.0.0.1
  access-control: 127.0.0.0/8 allow
  do-daemonize: no
  use-syslog: no
  logfile: ""
  verbosity: 0
  username: ""
  chroot: ""
  directory: "/tmp"
  pidfile: ""
  num-threads: 1
  module-config: "iterator"
  do-not-query-localhost: no
  cache-max-ttl: 300
  cache-max-negative-ttl: 5
  infra-host-ttl: 10
{private}
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: {upstream}
"""

_SQUID = """\
http_port {port} tcpkeepalive=10,5,3
visible_hostname egress
httpd_suppress_version_string on
pid_filename none
coredump_dir none
cache_log /dev/null
netdb_filename none
pinger_enable off
hosts_file none
dns_nameservers 127.0.0.1
dns_timeout 10 seconds
positive_dns_ttl 1 minute
negative_dns_ttl 1 second
shutdown_lifetime 1 second

# Nothing is kept: no run may find, or leave, anything here.
cache deny all
cache_mem 0 MB
memory_pools off
server_persistent_connections off
global_internal_static off

# Nothing is told of who is behind.
forwarded_for delete
request_header_access Via deny all
reply_header_access Via deny all

# Which run an address belongs to, by Docker's own name server; never remembered, because
# addresses are used again.
external_acl_type run ttl=0 negative_ttl=0 cache=0 concurrency=100 children-max=1 \
children-startup=1 %SRC /usr/bin/env python3 /opt/run-code/run_of_address.py
acl internet external run internet
acl allowlist external run allowlist

acl http proto HTTP
acl http_port port 80
acl https_port port 443
# Without -n, squid would ask whoever owns an address for its name, and believe the answer.
acl address dstdom_regex -n : (^|\\.)([0-9]+|0[xX][0-9a-fA-F]*)\\.?$
acl local_name dstdom_regex -n ^[^.]*\\.?$
acl listed dstdomain -n {listed}
acl closed dst {closed}

http_access deny !internet !allowlist
http_access deny manager
http_access deny CONNECT !https_port
http_access deny !CONNECT !http
http_access deny !CONNECT !http_port
http_access deny address
http_access deny local_name
http_access deny !internet !listed
http_access deny closed
http_access allow all

# What one run may use. The bytes are those that come in, of all its connections together.
client_ip_max_connections {connections}
delay_pools 1
delay_class 1 5
delay_access 1 allow all
delay_parameters 1 0/{bytes}
delay_initial_bucket_level 100
request_body_max_size {upload_mb} MB
client_lifetime 65 minutes
connect_timeout 10 seconds
forward_timeout 15 seconds
read_timeout 2 minutes
request_timeout 10 seconds

strip_query_terms on
logformat run {{"time":"%{{%Y-%m-%dT%H:%M:%SZ}}tg","run":"%#ue","from":"%>a","method":"%#rm",\
"url":"%#ru","status":%>Hs,"result":"%Ss","address":"%<a","bytes_in":%<st,"bytes_out":%>st,\
"milliseconds":%tr}}
access_log stdio:/dev/stdout run
"""


class SettingsFault(ValueError):
    """A variable cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Settings:
    """``allowed`` are names, or with a dot in front a name and all below it. ``denied`` are
    further networks that nothing may reach. ``dns`` is the name server that is asked.
    """

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    dns: str = "127.0.0.11"
    megabytes: int = 1024
    upload_megabytes: int = 100
    connections: int = 64

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Settings":
        """The settings of the EGRESS_ variables. Raises SettingsFault."""
        return cls(
            _without_covered(
                map(_listed_name, _words(environ.get("EGRESS_ALLOWED", "")))
            ),
            tuple(map(_network, _words(environ.get("EGRESS_DENIED", "")))),
            _dns_address(environ.get("EGRESS_DNS", "").strip() or cls.dns),
            _number(environ, "EGRESS_MB", cls.megabytes),
            _number(environ, "EGRESS_UPLOAD_MB", cls.upload_megabytes),
            _number(environ, "EGRESS_CONNECTIONS", cls.connections),
        )


def unbound_config(settings: Settings, own_addresses: Iterable[str] = ()) -> str:
    """The name server's: every answer without the addresses that are closed."""
    closed = _closed(settings, own_addresses)
    private = "\n".join(f"  private-address: {network}" for network in closed)
    return _UNBOUND.format(private=private, upstream=settings.dns)


def squid_config(settings: Settings, own_addresses: Iterable[str] = ()) -> str:
    """The proxy's."""
    closed = [
        part
        for network in _closed(settings, own_addresses)
        for part in _without_mapped(network)
    ]
    return _SQUID.format(
        port=PORT,
        # A list must not be empty; nothing is below this name (RFC 2606).
        listed=" ".join(settings.allowed or ("nothing.invalid",)),
        closed=" ".join(map(str, closed)),
        connections=settings.connections,
        bytes=settings.megabytes * MEBIBYTE,
        upload_mb=settings.upload_megabytes,
    )


def _closed(settings: Settings, own_addresses: Iterable[str]) -> list[Network]:
    texts = (*CLOSED_IPV4, *CLOSED_IPV6, *settings.denied, *own_addresses)
    networks = [ipaddress.ip_network(text) for text in texts]
    four = [entry for entry in networks if isinstance(entry, ipaddress.IPv4Network)]
    six = [entry for entry in networks if isinstance(entry, ipaddress.IPv6Network)]
    return [*ipaddress.collapse_addresses(four), *ipaddress.collapse_addresses(six)]


def _without_mapped(network: Network) -> Iterable[Network]:
    """To squid a mapped IPv4 address is that IPv4 address, and the other way round: a network
    with mapped ones would close all of IPv4."""
    if network.version == 6 and network.supernet_of(MAPPED_IPV4):
        return sorted(network.address_exclude(MAPPED_IPV4))
    return (network,)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _listed_name(text: str) -> str:
    """A name as squid compares it: without capitals, and in ASCII (punycode)."""
    dot = "." if text.startswith(("*.", ".")) else ""
    bare = text.removeprefix("*").strip(".")
    try:
        name = dot + bare.encode("idna").decode("ascii").lower()
    except UnicodeError:
        name = ""
    if not _NAME.fullmatch(name):
        raise SettingsFault(
            f"EGRESS_ALLOWED: “{text}” is no name such as example.org, or .example.org for all "
            "names below it too."
        )
    return name


def _without_covered(names: Iterable[str]) -> tuple[str, ...]:
    """Each once, and none below another one that has a dot: squid would not start."""
    known = list(dict.fromkeys(names))
    return tuple(
        name
        for name in known
        if not any(
            other.startswith(".")
            and other != name
            and f".{name.removeprefix('.')}".endswith(other)
            for other in known
        )
    )


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        raise SettingsFault(
            f"EGRESS_DENIED: “{text}” is no address, and no network such as 203.0.113.0/24."
        ) from None


def _dns_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise SettingsFault(
            f"EGRESS_DNS: “{text}” is no address of a name server."
        ) from None


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1_000_000):
        raise SettingsFault(f"{name}: “{text}” is no number from 1 to 1000000.")
    return int(text)
