"""The virtual environment with Open WebUI and what the plugins import."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .plugins import Plugin
from .progress import Progress, StepFailed

__all__ = ["OPEN_WEBUI_VERSION", "ensure_venv"]

OPEN_WEBUI_VERSION = "0.12.4"
_PIP_INSTALL = (
    "-m",
    "pip",
    "install",
    "--no-compile",  # Python compiles what it imports; that is a small part of it all
    "--disable-pip-version-check",
    "--no-input",
    "--progress-bar=off",
)
_NEEDED_BYTES = 12 * 10**9


def ensure_venv(folder: Path, plugins: Sequence[Plugin], progress: Progress) -> Path:
    """Return `folder`/venv with everything installed; nothing is done a second time.

    The packages come from where pip of this machine is configured to take them from.
    Raises StepFailed.
    """
    venv = folder / "venv"
    wanted = "\n".join(_requirements(plugins))
    # Written last, so that an installation that was broken off is taken up again.
    receipt = venv / "installed-requirements.txt"
    if receipt.exists() and receipt.read_text(encoding="utf-8") == wanted:
        return venv
    _check_space(folder)
    if not _works(venv):
        shutil.rmtree(venv, ignore_errors=True)
        progress.run(
            [sys.executable, "-m", "venv", str(venv)],
            what="Making a virtual environment",
            advice="On Debian and Ubuntu it needs the package python3-venv.",
            log=folder / "venv.log",
        )
    progress.run(
        [str(venv / "bin" / "python"), *_PIP_INSTALL, *wanted.split("\n")],
        what=f"Installing Open WebUI {OPEN_WEBUI_VERSION} (two to six minutes)",
        advice="Check that pip can reach its package index, then run this again.",
        log=folder / "pip.log",
    )
    receipt.write_text(wanted, encoding="utf-8")
    return venv


def _requirements(plugins: Sequence[Plugin]) -> list[str]:
    named = {
        requirement.strip()
        for plugin in plugins
        for requirement in plugin.manifest.get("requirements", "").split(",")
    }
    return [f"open-webui=={OPEN_WEBUI_VERSION}", *sorted(named - {""})]


def _works(venv: Path) -> bool:
    python = venv / "bin" / "python"
    return python.exists() and subprocess.run([python, "-c", ""]).returncode == 0


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _NEEDED_BYTES:
        raise StepFailed(
            f"{folder} has {free / 10**9:.1f} GB free; Open WebUI with its packages and the "
            f"sandbox image need {_NEEDED_BYTES / 10**9:.0f} GB: make room, or choose "
            "another place with --dir."
        )
