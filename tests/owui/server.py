"""A real Open WebUI with its own data, that tests may stop and start again."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from scripts.bringup.environment import open_webui_environment
from scripts.bringup.process import Process, free_port, kill, stop
from scripts.bringup.server import start_open_webui, wait_until_healthy

__all__ = ["OpenWebUIServer", "open_webui_venv"]

# A dozen sandboxes in the background would slow down, and be counted by, other tests.
_NO_PROOFS = {"RUN_CODE_SELF_TEST": "false"}
_VENV_VARIABLE = "RUN_CODE_OWUI_VENV"
# Background questions to the model would get in the way of scripted answers.
_NO_BACKGROUND_TASKS = {
    f"ENABLE_{task}_GENERATION": "false"
    for task in ("TITLE", "TAGS", "FOLLOW_UP", "AUTOCOMPLETE", "RETRIEVAL_QUERY")
}


def open_webui_venv() -> Path:
    """Return the virtual environment with Open WebUI. Raises RuntimeError without one."""
    folder = os.environ.get(_VENV_VARIABLE, "")
    if not folder:
        raise RuntimeError(
            f"{_VENV_VARIABLE} is not set: give the folder of a virtual environment "
            "with open-webui==0.12.4 (scripts/test does)."
        )
    if not (Path(folder) / "bin" / "open-webui").exists():
        raise RuntimeError(f"{_VENV_VARIABLE}={folder} holds no bin/open-webui.")
    return Path(folder)


class OpenWebUIServer:
    """One server on a free loopback port; the data in `folder` survives a restart."""

    def __init__(
        self, folder: Path, models_url: str, extra_env: Mapping[str, str] | None = None
    ) -> None:
        self._venv = open_webui_venv()
        self._folder = folder
        self._models_url = models_url
        self._extra_env = dict(extra_env or {})
        self._port = free_port()
        self._secret_key = secrets.token_hex(32)
        self._process: Process | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = folder / "open-webui.log"

    def twin(self) -> "OpenWebUIServer":
        """Another server over the same data, as a second worker is. Not started."""
        other = OpenWebUIServer(self._folder, self._models_url, self._extra_env)
        other._secret_key = self._secret_key
        other.log = self._folder / "twin.log"
        return other

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None, "the server was never started"
        return self._process.pid

    def start(self, extra_env: Mapping[str, str] | None = None) -> None:
        """Start and wait until it answers; `extra_env` is kept for later starts."""
        self._extra_env.update(extra_env or {})
        data = self._folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        env = open_webui_environment(
            venv=self._venv,
            data_dir=data,
            url=self.url,
            secret_key=self._secret_key,
            models_url=self._models_url,
            models_key="no-key",
            extra={**_NO_BACKGROUND_TASKS, **_NO_PROOFS, **self._extra_env},
        )
        self._process = start_open_webui(
            self._venv, self._port, env=env, cwd=self._folder, log=self.log
        )
        wait_until_healthy(self.url, self._process, self.log)

    def stop(self) -> None:
        """Stop it politely."""
        if self._process is not None:
            stop(self._process)

    def crash(self) -> None:
        """End it without any chance to tidy up."""
        assert self._process is not None, "the server was never started"
        kill(self._process)

    def log_text(self) -> str:
        """Everything the server has logged so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")
