"""A real service in a process of its own, on a free port of the loopback."""

import os
import subprocess
import sys
import time
from pathlib import Path

import requests

from scripts.bringup.process import free_port
from tests.codebox.tokens import SECRET, headers

__all__ = ["ServiceProcess"]

ROOT = Path(__file__).resolve().parents[2]
_START_SECONDS = 60.0
_STOP_SECONDS = 40.0


class ServiceProcess:
    """Starts on construction, and is ready to be called. ``settings`` are without CODEBOX_."""

    def __init__(self, log_folder, **settings):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = Path(log_folder) / f"codebox-{self.port}.log"
        environ = {
            **os.environ,
            "CODEBOX_SECRET": SECRET,
            "CODEBOX_PORT": str(self.port),
            "CODEBOX_SELF_TEST": "false",
            **{_variable(name): str(value) for name, value in settings.items()},
        }
        command = [sys.executable, "-m", "codebox", "--env-file", os.devnull]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=log, stderr=log
            )
        self._wait_until_alive()

    def _wait_until_alive(self):
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return
            except requests.ConnectionError:
                time.sleep(0.1)
        self.stop()
        raise AssertionError(f"codebox did not start:\n{self.log()}")

    def log(self):
        """Everything that the service logged so far."""
        return self.log_file.read_text("utf-8", "replace")

    def run(self, code="print(1)", token=None, timeout=60, **body):
        """POST /v1/run with JSON; gives the response."""
        return self.post({"code": code, **body}, token, timeout)

    def post(self, body, token=None, timeout=60, **more):
        """POST /v1/run with this JSON body."""
        return requests.post(
            f"{self.url}/v1/run",
            json=body,
            headers=headers(token, **more),
            timeout=timeout,
        )

    def get(self, path, token=None):
        """GET with a token."""
        return requests.get(self.url + path, headers=headers(token), timeout=60)

    def metric(self, name):
        """The sum of a metric over its labels."""
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def stop(self, seconds=_STOP_SECONDS):
        """End the process as a container platform would; gives its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
            raise


def _variable(name):
    outside = ("owui_", "docker_host")
    return name.upper() if name.startswith(outside) else f"CODEBOX_{name.upper()}"
