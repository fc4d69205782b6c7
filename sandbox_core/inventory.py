"""What an image has: its languages with their versions, and Python's packages. A sandbox of it
is asked, once for each image."""

import json
from dataclasses import dataclass

from sandbox_core.egress import NO_NETWORK
from sandbox_core.errors import SandboxError
from sandbox_core.languages import known_languages
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.streams import clean_text

__all__ = ["Inventory", "InventoryFailed", "inventory_request", "read_inventory"]

_SECONDS = 60.0
_MOST_PACKAGES = 5000
_LONGEST_WORD = 100
_PROGRAM = """\
import concurrent.futures, importlib.metadata, json, re, shutil, subprocess

COMMANDS = {commands!r}


def version_of(argv):
    if shutil.which(argv[0]) is None:
        return None
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\\d+(?:\\.\\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""


with concurrent.futures.ThreadPoolExecutor(2) as pool:
    versions = dict(zip(COMMANDS, pool.map(version_of, COMMANDS.values())))
packages = {{
    entry.metadata["Name"]: entry.version
    for entry in importlib.metadata.distributions()
    if entry.metadata["Name"]
}}
languages = {{name: text for name, text in versions.items() if text is not None}}
print(json.dumps({{"languages": languages, "packages": packages}}))
"""


class InventoryFailed(SandboxError):
    """What is in the image could not be told; the message says why."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Versions by name: of the languages that the image has, and of Python's packages. A
    version is empty where it could not be told."""

    languages: dict[str, str]
    packages: dict[str, str]


def inventory_request(user: str = "", chat: str = "") -> RunRequest:
    """The run that asks."""
    commands = {entry.name: list(entry.version_argv) for entry in known_languages()}
    program = _PROGRAM.format(commands=commands)
    limits = Limits(seconds=_SECONDS)
    return RunRequest(
        (Step(PYTHON.name, program),),
        limits=limits,
        user=user,
        chat=chat,
        network=NO_NETWORK,
    )


def read_inventory(result: RunResult) -> Inventory:
    """What the run told. Raises InventoryFailed."""
    if result.outcome is not Outcome.OK:
        raise InventoryFailed(f"It could not be listed what there is. {result.message}")
    try:
        untrusted = json.loads(str(result.stdout))
        languages = _versions(untrusted["languages"])
        packages = _versions(untrusted["packages"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InventoryFailed(
            "It could not be listed what there is: the sandbox answered something else. Tell "
            "your administrator.",
            detail=repr(error),
        ) from error
    known = [entry.name for entry in known_languages() if entry.name in languages]
    return Inventory({name: languages[name] for name in known}, packages)


def _versions(untrusted: dict[str, str]) -> dict[str, str]:
    """Sorted by name, without regard to case."""
    pairs = sorted(untrusted.items(), key=lambda pair: pair[0].lower())
    return {_word(name): _word(version) for name, version in pairs[:_MOST_PACKAGES]}


def _word(untrusted: str) -> str:
    return " ".join(clean_text(untrusted[:_LONGEST_WORD]).split())
