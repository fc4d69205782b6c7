"""What scripts/up remembers between its calls, in its folder.

Secrets are files of their own, readable by their owner only.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from .process import Process

__all__ = ["State", "secret"]


@dataclass
class State:
    """Everything that `--down` and a second `up` must know.

    `sandbox` are the variables that tell Open WebUI where code runs.
    """

    port: int = 0
    demo_port: int = 0
    models_url: str = ""
    sandbox: dict[str, str] = field(default_factory=dict)
    started_sandbox_host: bool = False
    processes: dict[str, Process] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> "State":
        """Read the state; a folder without one gives the empty state."""
        try:
            stored = json.loads(_file(folder).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        # A version before this one may have remembered other things.
        known = {entry.name for entry in fields(cls)} & stored.keys()
        state = {name: stored[name] for name in known}
        return cls(**{**state, "processes": _processes(stored["processes"])})

    def save(self, folder: Path) -> None:
        """Write the state; called after every step that changed it."""
        _file(folder).write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")


def secret(folder: Path, name: str) -> str:
    """Return the secret of this name; made up and stored (mode 0600) the first time."""
    file = folder / name
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_urlsafe(18) + "\n", encoding="utf-8")
    return file.read_text(encoding="utf-8").strip()


def _file(folder: Path) -> Path:
    return folder / "state.json"


def _processes(stored: Mapping[str, Any]) -> dict[str, Process]:
    return {name: Process(**fields) for name, fields in stored.items()}
