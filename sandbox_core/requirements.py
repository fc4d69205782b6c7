"""Which packages a run asks for: named by its caller, or found before its code.

Found are ``pip install`` lines at the beginning of a program (in Python with a ``!`` or ``%``, as
in notebooks), and a script's own metadata (PyPA specification "Inline script metadata").
"""

import re
import shlex
import tomllib
from dataclasses import dataclass, replace

from sandbox_core.errors import InvalidRequest
from sandbox_core.languages import language_named
from sandbox_core.languages_interpreted import BASH, PYTHON
from sandbox_core.models import RunRequest, Step

__all__ = [
    "Requirement",
    "asks_for_packages",
    "gather_packages",
    "normal_name",
    "package_names",
    "read_requirement",
]

_MOST_REQUIREMENTS = 20
_LONGEST_REQUIREMENT = 200
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"\s*(\[[A-Za-z0-9._,\s-]*\])?"
    r"\s*((?:(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+\s*,?\s*)*)"
)
_PIP_LINE = re.compile(
    r"[ \t]*(?P<sign>[!%]?)[ \t]*(?:python[\d.]*[ \t]+-m[ \t]+)?(?:uv[ \t]+)?pip[\d.]*"
    r"[ \t]+install[ \t]+(?P<words>(?:[^;&|<>$`\\'\"]|'[^'$`]*'|\"[^\"$`]*\")+)"
)
# What people add to the command and what changes nothing here.
_HARMLESS_OPTIONS = {
    "-q",
    "-qq",
    "--quiet",
    "-U",
    "--upgrade",
    "--user",
    "--system",
    "--no-cache-dir",
    "--break-system-packages",
    "--disable-pip-version-check",
}
_METADATA = re.compile(
    r"^# /// script[ \t]*\n(?P<content>(?:^#(?:| [^\n]*)\n)+?)^# ///[ \t]*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package by its name in normal form, and as pip is asked for it."""

    name: str
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether any version will do."""
        return self.text == self.name


def normal_name(name: str) -> str:
    """The name as the index compares it (PyPA specification "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def package_names(text: str) -> frozenset[str]:
    """Names in a setting, with commas or blanks between them, in normal form."""
    return frozenset(normal_name(name) for name in re.split(r"[\s,]+", text) if name)


def read_requirement(text: str) -> Requirement:
    """A package from what a caller or a program wrote. Raises InvalidRequest for anything but a
    name with a version, such as an address, a path or an option."""
    found = _REQUIREMENT.fullmatch(text.strip()[:_LONGEST_REQUIREMENT])
    if not found:
        raise InvalidRequest(
            f"“{text.strip()[:60]}” cannot be installed: name packages of the index, such as "
            "cowsay or cowsay==6.1."
        )
    name = normal_name(found[1])
    rest = re.sub(r"\s+", "", (found[2] or "") + found[3]).rstrip(",")
    return Requirement(name, name + rest)


def gather_packages(request: RunRequest) -> RunRequest:
    """The request with all packages that it asks for in ``packages``, in normal form, and the
    lines that asked for them empty. Raises InvalidRequest."""
    wanted = list(request.packages)
    steps = []
    for step in request.steps:
        names, code = _take_pip_lines(step)
        wanted += [*names, *_metadata_packages(step)]
        steps.append(replace(step, code=code))
    requirements = dict.fromkeys(read_requirement(text).text for text in wanted)
    if len(requirements) > _MOST_REQUIREMENTS:
        raise InvalidRequest(
            f"A run may install {_MOST_REQUIREMENTS} packages at most, not {len(requirements)}."
        )
    return replace(request, steps=tuple(steps), packages=tuple(requirements))


def asks_for_packages(step: Step) -> bool:
    """Whether a step does nothing but install packages of Python's index."""
    names, code = _take_pip_lines(step)
    lines = (line.strip() for line in code.split("\n"))
    return bool(names) and not any(line and not line.startswith("#") for line in lines)


def _take_pip_lines(step: Step) -> tuple[list[str], str]:
    """The packages of the lines before the program, and the code without those lines."""
    language = language_named(step.language)
    if language not in (PYTHON, BASH):
        return [], step.code
    lines = step.code.split("\n")
    names: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _packages_of_line(line, needs_sign=language is PYTHON)
        if found is None:
            break
        names += found
        lines[number] = ""  # the other lines keep their numbers
    return names, "\n".join(lines)


def _packages_of_line(line: str, needs_sign: bool) -> list[str] | None:
    """None for a line that does something else, or more."""
    found = _PIP_LINE.fullmatch(line.rstrip())
    if not found or (needs_sign and not found["sign"]):
        return None
    words = shlex.split(found["words"], comments=True)
    names = [word for word in words if word not in _HARMLESS_OPTIONS]
    if not names or any(name.startswith("-") for name in names):
        return None
    return names


def _metadata_packages(step: Step) -> list[str]:
    if language_named(step.language) is not PYTHON:
        return []
    found = _METADATA.search(step.code + "\n")
    if not found:
        return []
    text = "\n".join(line[2:] for line in found["content"].splitlines())
    try:
        listed = tomllib.loads(text).get("dependencies", [])
    except tomllib.TOMLDecodeError:
        return []
    return [str(entry) for entry in listed] if isinstance(listed, list) else []
