"""Requests to the proxy, written by hand, and a program that sends them from a sandbox."""

import json
from dataclasses import replace

from sandbox_core.outcome import Outcome
from tests.contract.runs import describe, request_of

__all__ = ["ASK", "ask", "connect", "get", "run"]

# Sends each request as it is to the proxy, and prints the status line of every answer.
ASK = """
import concurrent.futures, json, os, re, socket

proxy = re.search("//(.*):", os.environ["http_proxy"])[1]

def ask(text):
    try:
        with socket.create_connection((proxy, 3128), 5) as link:
            link.settimeout(6)
            link.sendall(text.replace("PROXY", proxy).encode("utf-8", "surrogateescape"))
            said = b""
            while part := link.recv(65536):
                said += part
                if text.startswith("CONNECT ") and b"\\r\\n\\r\\n" in said:
                    break
    except OSError as error:
        said += repr(error).encode()
    return [int(code) for code in re.findall(rb"HTTP/1.[01] (\\d\\d\\d) ", said)]

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(json.dumps(list(pool.map(ask, {requests!r}))))
"""


def get(url, host="", **headers):
    """A request in the form that proxies take."""
    lines = [f"GET {url} HTTP/1.1", f"Host: {host or 'public.example'}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "Connection: close", "", ""])


def connect(place):
    return f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n"


def run(runner, code, network="", on_event=None, **options):
    language = options.pop("language", "python")
    request = request_of([(language, code)], **options)
    return runner.run(replace(request, network=network), on_event)


def ask(runner, requests, network=""):
    """The status codes that each request got, in their order."""
    result = run(runner, ASK.format(requests=list(requests)), network)
    assert result.outcome is Outcome.OK, describe(result)
    return result, json.loads(str(result.stdout))
