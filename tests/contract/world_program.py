"""The program of the closed world: HTTP on port 80, TLS on 443, other services on 22 and 8080,
and a name server on 53. It prints a line of JSON for each connection."""

import itertools
import json
import socket
import ssl
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

NAMES = json.loads(sys.argv[1])
A, CNAME, AAAA = 1, 5, 28
TURNS = {}


def tell(**line):
    print(json.dumps(line), flush=True)


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        at, port = self.connection.getsockname()[:2]
        at = at.removeprefix("::ffff:")
        tell(address=at, port=port, path=self.path, host=self.headers["Host"])
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path == "/to":
            self.answer(302, b"", Location=query["url"][0])
        elif url.path.startswith("/chain/"):
            number = int(url.path.rpartition("/")[2])
            further = f"/chain/{number - 1}" if number else "http://10.99.0.10/"
            self.answer(302, b"", Location=further)
        elif url.path == "/big":
            self.answer(200, b"x" * int(query["bytes"][0]))
        else:
            said = {"address": at, "headers": dict(self.headers), "path": self.path}
            self.answer(200, json.dumps(said).encode())

    do_POST = do_PUT = do_GET

    def answer(self, status, body, **headers):
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 256
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, *_):
        pass


def serve(port, context=None):
    server = Server(("::", port), Site)
    if context:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    threading.Thread(target=server.serve_forever, daemon=True).start()


def answers(name, kind):
    """[(type, data)] for a question."""
    if name == "alias.example":
        target = "closed0.example"
        return [(CNAME, encoded(target)), *answers(target, kind)]
    found = NAMES.get(name, [])
    if name.endswith("rebind.example"):
        turn = TURNS.setdefault((name, kind), itertools.count())
        found = [["203.0.113.10"], ["10.99.0.10"]][next(turn) % 2]
    family = {A: socket.AF_INET, AAAA: socket.AF_INET6}.get(kind)
    return [
        (kind, socket.inet_pton(family, at))
        for at in found
        if family and (":" in at) == (kind == AAAA)
    ]


def encoded(name):
    parts = (bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"".join(parts) + b"\0"


def reply(query):
    """The answer to a DNS query (RFC 1035, section 4), with a time to live of nothing."""
    number = query[:2]
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    name = ".".join(labels)
    kind = struct.unpack("!H", query[at + 1 : at + 3])[0]
    question = query[12 : at + 5]
    found = answers(name, kind)
    known = found or name in NAMES or name.endswith("rebind.example")
    records = b""
    for index, (type_, data) in enumerate(found):
        owner = b"\xc0\x0c"
        if index and found[0][0] == CNAME:
            owner = encoded("closed0.example")
        records += owner + struct.pack("!HHIH", type_, 1, 0, len(data)) + data
    flags = 0x8580 if known else 0x8583
    header = number + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
    return header + question + records


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/world.pem")
    for port in (22, 80, 8080):
        serve(port)
    serve(443, context)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("", 53))
    while True:
        query, sender = names.recvfrom(512)
        names.sendto(reply(query), sender)


if __name__ == "__main__":
    main()
