"""A codebox service of our own to measure, in a process of its own on the loopback."""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import jwt
import requests

from scripts.benchmarks.process_memory import resident_bytes
from scripts.benchmarks.subject import BenchmarkError, Subject
from scripts.bringup.process import free_port

__all__ = ["ServiceUnderTest", "running_service"]

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_TOKEN_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class ServiceUnderTest:
    """Where it listens, its process, and the secret that signs tokens for it."""

    url: str
    pid: int
    secret: str

    def headers(self, user: str) -> dict[str, str]:
        """Headers of calls of this user."""
        claims = {"sub": user, "exp": int(time.time()) + _TOKEN_SECONDS}
        token = jwt.encode(claims, self.secret, algorithm="HS256")
        return {"Authorization": f"Bearer {token}"}

    def metrics(self) -> dict[str, float]:
        """Its numbers by their names, labels included."""
        headers = self.headers("bench")
        answer = requests.get(f"{self.url}/metrics", headers=headers, timeout=30)
        lines = (line for line in answer.text.splitlines() if not line.startswith("#"))
        pairs = (line.rpartition(" ") for line in lines)
        return {name: float(value) for name, _, value in pairs}

    def memory_mb(self) -> float:
        """Memory of its process at this moment, in MB."""
        return resident_bytes(self.pid) / 1e6


@contextmanager
def running_service(subject: Subject, **settings: object) -> Iterator[ServiceUnderTest]:
    """A service with these settings (without CODEBOX_), ended afterwards. Raises
    BenchmarkError when it does not start."""
    port, secret = free_port(), secrets.token_hex(32)
    environ = {
        **os.environ,
        "CODEBOX_SECRET": secret,
        "CODEBOX_PORT": str(port),
        "CODEBOX_IMAGE": subject.image,
        "CODEBOX_RUNTIME": subject.runtime,
        "CODEBOX_SELF_TEST": "false",
        **{f"CODEBOX_{name.upper()}": str(value) for name, value in settings.items()},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "codebox", "--env-file", os.devnull],
        cwd=Path(__file__).resolve().parents[2],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    service = ServiceUnderTest(f"http://127.0.0.1:{port}", process.pid, secret)
    try:
        _wait_until_alive(service, process)
        yield service
    finally:
        process.terminate()
        process.wait(_STOP_SECONDS)


def _wait_until_alive(
    service: ServiceUnderTest, process: subprocess.Popen[bytes]
) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if requests.get(f"{service.url}/health", timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.1)
    raise BenchmarkError("The codebox service does not start.")
