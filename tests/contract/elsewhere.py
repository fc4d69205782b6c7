"""Places that no sandbox may reach, and a program that tries."""

import json
import secrets
import socket
import subprocess
import threading
from contextlib import contextmanager

__all__ = ["NAMES", "PROBE", "opened_elsewhere", "own_addresses"]

PROBE = """
import concurrent.futures, socket

def look(place):
    address, port = place
    try:
        socket.create_connection((address, port), 2).close()
        return f"OPEN {{address}} {{port}}"
    except OSError as error:
        return f"closed {{address}} {{port}} {{type(error).__name__}}"

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(*pool.map(look, {places!r}), sep="\\n")
"""
NAMES = ("example.com", "host.docker.internal", "open-webui", "codebox")
# Metadata services, networks of houses and of carriers, and the rest of the world: all of them
# addresses of this machine as long as the test lasts, so that no probe can leave it.
ELSEWHERE = (
    "169.254.169.254/32",
    "10.255.77.1/32",
    "172.31.77.1/32",
    "192.168.255.77/32",
    "100.64.77.1/32",
    "192.0.2.77/32",
    "fd00:ec2::254/128",
    "2001:db8::77/128",
)


@contextmanager
def opened_elsewhere():
    """(address, port) of other places, all of this machine, which answer meanwhile."""
    name = f"rc{secrets.token_hex(5)}"
    ip("link", "add", name, "type", "bridge")
    try:
        ip("link", "set", name, "up")
        for address in ELSEWHERE:
            ip("address", "add", address, "dev", name, *nodad(address))
        with socket.create_server(
            ("", 0), family=socket.AF_INET6, dualstack_ipv6=True
        ) as server:
            threading.Thread(target=accept_all, args=(server,), daemon=True).start()
            port = server.getsockname()[1]
            places = [(address.partition("/")[0], port) for address in ELSEWHERE]
            for place in places:  # from here they do answer
                socket.create_connection(place, 2).close()
            yield places
    finally:
        ip("link", "delete", name)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, timeout=10)


def nodad(address):
    return ["nodad"] if ":" in address else []


def accept_all(server):
    try:
        while True:
            server.accept()[0].close()
    except OSError:
        return


def own_addresses(port):
    """Where this machine answers itself: its own address, and those of its bridges."""
    told = subprocess.run(
        ["ip", "-json", "-4", "address"], capture_output=True, check=True, timeout=10
    )
    found = [
        entry["local"]
        for link in json.loads(told.stdout)
        for entry in link["addr_info"]
        if entry["local"] != "127.0.0.1"
    ]
    return [(address, port) for address in dict.fromkeys(found)]
