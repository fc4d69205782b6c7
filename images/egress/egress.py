"""Starts the name server and the proxy, and ends when one of them does: Docker starts the
container again then, and meanwhile there is no way out."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from egress_config import Settings, SettingsFault, squid_config, unbound_config

FOLDER = Path("/tmp")
SQUID = ["squid", "-N", "-d", "1", "-f", str(FOLDER / "squid.conf")]
UNBOUND = ["unbound", "-d", "-c", str(FOLDER / "unbound.conf")]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def own_addresses() -> list[str]:
    """Those of this container, and of the machine that it leaves by."""
    found = set()
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        gateway = bytes.fromhex(line.split()[2])[::-1]
        if any(gateway):
            found.add(socket.inet_ntop(socket.AF_INET, gateway))
    before = ""
    for line in Path("/proc/net/fib_trie").read_text().splitlines():
        if "/32 host LOCAL" in line:
            found.add(before.split()[-1])
        before = line
    six = Path("/proc/net/if_inet6")
    for line in six.read_text().splitlines() if six.exists() else ():
        found.add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0])))
    return sorted(found)


def main() -> int:
    """Until a part ends, or SIGTERM comes."""
    try:
        settings = Settings.of(os.environ)
    except SettingsFault as fault:
        print(fault, file=sys.stderr)
        return 2
    addresses = own_addresses()
    (FOLDER / "unbound.conf").write_text(unbound_config(settings, addresses))
    (FOLDER / "squid.conf").write_text(squid_config(settings, addresses))
    environment = {"PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"}
    parts = [subprocess.Popen(command, env=environment) for command in (UNBOUND, SQUID)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while all(part.poll() is None for part in parts):
            time.sleep(0.5)
        return 1
    finally:
        for part in parts:
            part.terminate()


if __name__ == "__main__":
    sys.exit(main())
