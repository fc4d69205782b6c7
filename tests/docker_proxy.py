"""A stand-in for a Docker Engine in trouble: a Unix socket in front of the real one."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["DockerProxy"]


class DockerProxy:
    """Hands connections at ``path`` on to the engine at ``docker_host`` while it is up.

    ``down``: nobody listens. ``hang()``: connections are accepted, and nothing passes any more.
    """

    def __init__(self, path: Path, docker_host: str) -> None:
        assert docker_host.startswith("unix://"), "the engine must be at a Unix socket"
        self.docker_host = f"unix://{path}"
        self._engine = docker_host.removeprefix("unix://")
        self._path = path
        self._flowing = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []

    def up(self) -> None:
        """Start to listen and to hand on."""
        self._flowing.set()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen(64)
        self._keep(listener)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def hang(self) -> None:
        """From now on no byte passes."""
        self._flowing.clear()

    def down(self) -> None:
        """Stop listening and cut all connections, as when the engine is stopped."""
        self._path.unlink(missing_ok=True)
        with self._lock:
            closing, self._open = self._open, []
        for each in closing:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._flowing.set()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # closed by down()
            while True:
                client = self._keep(listener.accept()[0])
                engine = self._keep(socket.socket(socket.AF_UNIX))
                engine.connect(self._engine)
                for ends in ((client, engine), (engine, client)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _keep(self, one: socket.socket) -> socket.socket:
        with self._lock:
            self._open.append(one)
        return one

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # closed by down()
            while data := source.recv(1 << 16):
                self._flowing.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
