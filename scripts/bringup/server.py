"""Start an Open WebUI from a virtual environment and wait until it answers."""

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from .process import Process, is_running, launch

__all__ = ["ServerError", "answers", "start_open_webui", "wait_until_healthy"]


class ServerError(Exception):
    """Open WebUI did not start; the text says why and where its log is."""


def start_open_webui(
    venv: Path, port: int, *, env: Mapping[str, str], cwd: Path, log: Path
) -> Process:
    """Start Open WebUI on 127.0.0.1; it needs some seconds before it answers."""
    argv = [str(venv / "bin" / "open-webui"), "serve"]
    argv += ["--host", "127.0.0.1", "--port", str(port)]
    return launch(argv, env=env, cwd=cwd, log=log)


def answers(url: str) -> bool:
    """Tell whether the server at `url` is up and has finished starting."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def wait_until_healthy(
    url: str,
    process: Process,
    log: Path,
    *,
    timeout: float = 240.0,
    waiting: Callable[[float], None] = lambda seconds: None,
) -> None:
    """Return when the server answers; `waiting` is told the seconds so far.

    Raises ServerError when the process ends or `timeout` seconds have passed.
    """
    begin = time.monotonic()
    while not answers(url):
        elapsed = time.monotonic() - begin
        if not is_running(process):
            raise ServerError(f"Open WebUI ended while starting:\n{_tail(log)}")
        if elapsed > timeout:
            raise ServerError(
                f"Open WebUI does not answer after {timeout:.0f} s; see {log}:\n{_tail(log)}"
            )
        waiting(elapsed)
        time.sleep(0.5)


def _tail(log: Path, lines: int = 15) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])
