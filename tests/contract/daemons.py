"""Stand-ins for a Docker daemon in trouble, and a daemon of the test's own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import docker
from docker.errors import DockerException

__all__ = ["PrivateDaemon", "private_daemon", "silent_socket"]


@contextmanager
def silent_socket(path):
    """A Unix socket that accepts connections and never answers; yields its docker_host."""
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen(16)
        yield f"unix://{path}"


class PrivateDaemon:
    """A Docker daemon of the test's own in a folder, with these runtimes and no network.

    Needs root and dockerd. ``runtimes`` are as in daemon.json.
    """

    def __init__(self, folder, runtimes):
        if shutil.which("dockerd") is None:
            raise AssertionError(
                "dockerd is not installed: scripts/sandbox-host installs it."
            )
        self.docker_host = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._process = None
        configuration = {
            "hosts": [self.docker_host],
            "pidfile": f"{folder}/docker.pid",
            "data-root": f"{folder}/data",
            "exec-root": f"{folder}/exec",
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "ip-masq": False,
            "runtimes": runtimes,
        }
        (folder / "daemon.json").write_text(json.dumps(configuration))

    def start(self):
        """Start it, also once more, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["dockerd", "--config-file", self._folder / "daemon.json"],
                stdout=log,
                stderr=log,
            )
        self._wait_for_answer(time.monotonic() + 30)

    def kill(self):
        """End it without any chance to tidy up."""
        self._process.kill()
        self._process.wait(30)
        (self._folder / "docker.pid").unlink(missing_ok=True)

    def stop(self):
        """End it and whatever it started."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for mount in self._mounts():
            subprocess.run(["umount", "--lazy", mount], check=False)

    def processes(self, program=""):
        """Ids of the processes of this name that its containers have."""
        mark = f"{self._folder}/exec"
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                text = (
                    entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
                if mark in text and program in text.partition(" ")[0]:
                    found.append(int(entry.parent.name))
        return found

    def _wait_for_answer(self, until):
        while True:
            try:
                docker.APIClient(self.docker_host, timeout=10).close()
                return
            except DockerException:
                if time.monotonic() > until or self._process.poll() is not None:
                    log = (self._folder / "log").read_text()
                    raise AssertionError(
                        f"The daemon did not come up: {log[-2000:]}"
                    ) from None
                time.sleep(0.1)

    def _mounts(self):
        lines = Path("/proc/mounts").read_text().splitlines()
        places = [line.split()[1] for line in lines]
        return sorted(
            (place for place in places if place.startswith(str(self._folder))),
            reverse=True,
        )


@contextmanager
def private_daemon(folder, runtimes):
    """A daemon that knows the runtimes of these paths by name, and an empty image; yields its
    docker_host. No container ever starts in it."""
    daemon = PrivateDaemon(
        folder, {name: {"path": path} for name, path in runtimes.items()}
    )
    try:
        daemon.start()
        with closing(docker.APIClient(daemon.docker_host, timeout=10)) as client:
            client.import_image_from_data(
                b"\0" * 10240, repository="empty", tag="latest"
            )
        yield daemon.docker_host
    finally:
        daemon.stop()
