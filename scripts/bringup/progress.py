"""Progress lines for the terminal, and long commands that keep showing them."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Progress", "StepFailed"]

_SECONDS_BETWEEN_LINES = 15.0


class StepFailed(Exception):
    """A step could not be done; the text says why and what to do next."""


class Progress:
    """Tells on standard error what happens, with the seconds since the start."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._last_line = self._begin

    def say(self, text: str) -> None:
        """Print one line."""
        self._last_line = time.monotonic()
        seconds = self._last_line - self._begin
        print(f"[up +{seconds:3.0f}s] {text}", file=sys.stderr, flush=True)

    def still(self, text: str) -> None:
        """Print a line if the last one is a while ago; called in waiting loops."""
        if time.monotonic() - self._last_line > _SECONDS_BETWEEN_LINES:
            self.say(text)

    def run(
        self,
        argv: Sequence[str],
        *,
        what: str,
        advice: str,
        log: Path,
        env: Mapping[str, str] | None = None,
        timeout: float = 1800.0,
    ) -> None:
        """Run a long command with its output in `log`; `timeout` in seconds.

        Raises StepFailed with the end of the log and `advice`.
        """
        self.say(f"{what} (log: {log})")
        begin = time.monotonic()
        with log.open("wb") as output:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
            )
            try:
                while child.poll() is None:
                    if time.monotonic() - begin > timeout:
                        raise StepFailed(
                            f"{what}: no end after {timeout:.0f} s. {advice}"
                        )
                    self.still(f"... {_last_line(log)}")
                    time.sleep(0.2)
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        if child.returncode != 0:
            raise StepFailed(f"{what} failed: {_last_line(log)}\nSee {log}. {advice}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:120] for line in reversed(lines) if line.strip()), "")
