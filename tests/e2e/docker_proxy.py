"""A stand-in for a Docker Engine in trouble: a Unix socket in front of the real one."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["DockerProxy"]


class DockerProxy:
    """Listens at ``path`` and passes bytes to and from the engine at ``docker_host``.

    ``silent``: it accepts connections and never answers. stop() ends everything, as when
    the engine's process is gone; start() brings it back.
    """

    def __init__(self, path: Path, docker_host: str) -> None:
        assert docker_host.startswith("unix://"), "the engine must be at a Unix socket"
        self._engine = docker_host.removeprefix("unix://")
        self._path = path
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.url = f"unix://{path}"
        self.silent = False

    def start(self) -> None:
        """Listen."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen(64)
        self._keep(listener)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop(self) -> None:
        """Close the socket and every connection."""
        self._path.unlink(missing_ok=True)
        with self._lock:
            closing, self._open = self._open, []
        for each in closing:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # closed by stop()
            while True:
                client = self._keep(listener.accept()[0])
                if self.silent:
                    continue
                engine = self._keep(socket.socket(socket.AF_UNIX))
                engine.connect(self._engine)
                for ends in ((client, engine), (engine, client)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()

    def _keep(self, one: socket.socket) -> socket.socket:
        with self._lock:
            self._open.append(one)
        return one


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # closed by stop()
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
