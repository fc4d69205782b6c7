"""Proves that programs with a network reach the proxy, and nothing private through or past it."""

from sandbox_core.egress import reaches_out
from sandbox_core.engines.base import Finding
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.network_runner import NetworkRunner
from sandbox_core.outcome import Outcome

__all__ = ["examine_network"]

_LOOK_SECONDS = 20.0
_PROXY_PROGRAM = """\
import os, re, socket

proxy = re.search("//(.*):", os.environ["http_proxy"])[1]
places = ("10.0.0.1", "127.0.0.1", "169.254.169.254", "[fd00:ec2::254]")
requests = [f"GET http://{place}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" for place in places]
requests += [f"CONNECT {place}:443 HTTP/1.1\\r\\n\\r\\n" for place in places]
told = []
for request in requests:
    try:
        with socket.create_connection((proxy, 3128), 3) as link:
            link.settimeout(5)
            link.sendall(request.encode())
            told.append(link.recv(100).decode("latin-1").split(" ")[1])
    except (OSError, IndexError) as error:
        told.append(type(error).__name__)
try:
    socket.create_connection(("169.254.169.254", 80), 1).close()
    told.append("past")
except OSError:
    pass
print(*sorted(set(told)))
"""
_DENIED_STATUS = "403"
_PROXY_MEND = "docker logs run-code-egress   # and docs/network.md"
_PROXY_WHY = "Otherwise programs reach your internal services, or nothing at all."


def examine_network(runner: NetworkRunner) -> list[Finding]:
    """One finding on the way out that this runner gives; none where it gives none. Takes some
    seconds: it starts a sandbox."""
    if not reaches_out(runner.mode):
        return []
    limits = Limits(seconds=_LOOK_SECONDS)
    result = runner.run(RunRequest((Step(PYTHON.name, _PROXY_PROGRAM),), limits=limits))
    said = str(result.stdout).strip()
    if result.outcome is Outcome.OK and said == _DENIED_STATUS:
        text = "Programs reach the proxy, which refuses private addresses, and nothing else."
        return [Finding("network-proxy", True, text)]
    text = result.message or f"Private addresses are not all refused: {said[:200]}"
    return [Finding("network-proxy", False, text, _PROXY_MEND, _PROXY_WHY)]
