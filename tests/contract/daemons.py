"""Stand-ins for a Docker daemon in trouble, and a daemon of the test's own."""

import json
import shutil
import socket
import subprocess
import threading
import time
from contextlib import closing, contextmanager, suppress

__all__ = ["SocketProxy", "private_daemon", "silent_socket"]


@contextmanager
def silent_socket(path):
    """A Unix socket that accepts connections and never answers; yields its docker_host."""
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen(16)
        yield f"unix://{path}"


class SocketProxy:
    """A Unix socket that hands connections on to a daemon while it is up.

    ``down``: nobody listens. ``hang()``: connections stay open, and nothing passes any more.
    """

    def __init__(self, path, target):
        self.docker_host = f"unix://{path}"
        self._path, self._target = path, target
        self._flowing = threading.Event()
        self._listener = None
        self._sockets = []

    def up(self):
        """Start to listen and to hand on."""
        self._flowing.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(16)
        threading.Thread(
            target=self._accept, args=(self._listener,), daemon=True
        ).start()

    def hang(self):
        """From now on no byte passes."""
        self._flowing.clear()

    def down(self):
        """Stop listening and cut all connections, as when a daemon is stopped."""
        for opened in (self._listener, *self._sockets):
            if opened is not None:
                with suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)
                opened.close()
        self._listener, self._sockets = None, []
        self._path.unlink(missing_ok=True)
        self._flowing.set()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._target)
            self._sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(
                    target=self._pump, args=(source, sink), daemon=True
                ).start()

    def _pump(self, source, sink):
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def private_daemon(folder, runtimes):
    """A Docker daemon without network that knows these runtimes and an empty image.

    Yields its docker_host. Needs root and dockerd; no container ever starts in it.
    """
    if shutil.which("dockerd") is None:
        raise AssertionError(
            "dockerd is not installed: scripts/sandbox-host installs it."
        )
    address = f"unix://{folder}/docker.sock"
    configuration = {
        "hosts": [address],
        "pidfile": f"{folder}/docker.pid",
        "data-root": f"{folder}/data",
        "exec-root": f"{folder}/exec",
        "bridge": "none",
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "ip-masq": False,
        "runtimes": {name: {"path": path} for name, path in runtimes.items()},
    }
    (folder / "daemon.json").write_text(json.dumps(configuration))
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--config-file", folder / "daemon.json"], stdout=log, stderr=log
        )
    try:
        _import_empty_image(address, time.monotonic() + 30)
        yield address
    finally:
        daemon.terminate()
        daemon.wait(30)


def _import_empty_image(address, until):
    import docker
    from docker.errors import DockerException

    while True:
        try:
            client = docker.APIClient(address, timeout=10)
            break
        except DockerException:
            assert time.monotonic() < until, "the private daemon did not come up"
            time.sleep(0.1)
    with closing(client):
        client.import_image_from_data(b"\0" * 10240, repository="empty", tag="latest")
