"""Installs Python packages for a run: in a sandbox of its own, which has the index and nothing
else on its network. What comes out goes as one archive into the sandbox of the program, which
has no network at all.

Only wheels are taken, so that nothing of a package runs while there is a network.
"""

import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO

from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import InvalidRequest, SandboxError
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.limits import MIB, Limits
from sandbox_core.models import RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome
from sandbox_core.requirements import Requirement, normal_name, read_requirement
from sandbox_core.streams import clean_text

__all__ = [
    "PACKAGES_OFF",
    "Archive",
    "InstallFailed",
    "InstallSettings",
    "Installer",
    "Missing",
]

PACKAGES_OFF = (
    "Packages are off here, so nothing was run: none can be installed. Use those that are "
    "there, and leave the packages out."
)
_ARCHIVE = "packages.tar"
_FRESH_SECONDS = 3600.0
_KEPT_BYTES = 512 * MIB
_INDEX_SECONDS = 8
_INDEX_AWAY = 69  # EX_UNAVAILABLE
_INSTALL_PROGRAM = """\
import json, os, runpy, site, sys

wanted, index, host, first = {wanted!r}, {index!r}, {host!r}, {first!r}


def pip(*arguments):
    \"\"\"Its exit status. In this process: another Python takes a tenth of a second.\"\"\"
    sys.argv = ["pip", *arguments]
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        runpy.run_module("pip", run_name="__main__")
    except SystemExit as end:
        return end.code
    finally:
        os.dup2(output, 1)
    return 0


def answers():
    import urllib.error, urllib.request
    page = urllib.request.Request(index + first + "/", headers={{"Accept": "text/html"}})
    try:
        urllib.request.urlopen(page, timeout={connect}).close()
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True


os.environ["PYTHONUSERBASE"] = site.USER_BASE = "/tmp/packages"
site.USER_SITE = None
status = pip("install", "--user", "--only-binary=:all:", "--no-cache-dir", "--no-compile",
             "--no-input", "--no-warn-script-location", "--disable-pip-version-check",
             "--no-warn-conflicts",  # which would read what all packages of the image need
             "--progress-bar=off", "--retries=0", "--timeout={connect}", "--index-url", index,
             "--trusted-host", host, *wanted)
if status:
    sys.exit(status if answers() else {away})
from importlib.metadata import distributions
found = {{}}
for folder, _, names in os.walk("/tmp/packages"):
    for name in names:
        if name == "METADATA" and folder.endswith(".dist-info"):
            for entry in distributions(path=[os.path.dirname(folder)]):
                found[entry.metadata["Name"]] = entry.version
if found:
    import tarfile
    with tarfile.open("{archive}", "w") as archive:
        archive.add("/tmp/packages", ".")
print(json.dumps(found))
"""
_PRESENT = """\
import importlib.metadata, json
print(json.dumps([e.metadata["Name"] for e in importlib.metadata.distributions()]))
"""


class InstallFailed(SandboxError):
    """The packages could not be installed; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class InstallSettings:
    """Where packages come from and what they may cost. ``index`` is the address of the index as
    the sandbox sees it, ``network`` the engine's name of the internal network that it is on,
    ``runtime`` a gVisor with a network stack of its own. ``size_mib`` is for the installed files.
    ``allowed`` names what may be asked for (empty: anything), ``denied`` what never comes in.
    """

    index: str
    network: str
    runtime: str
    size_mib: int = 256
    seconds: float = 60.0
    allowed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Archive:
    """What was installed, as a tar file, and its names with versions; without a content when
    all was there already."""

    content: IO[bytes] | None
    size: int
    names: tuple[str, ...]

    def opened(self) -> IO[bytes] | None:
        """The tar file, with a position of its own for each reader."""
        if self.content is None:
            return None
        return open(f"/proc/self/fd/{self.content.fileno()}", "rb")


@dataclass(frozen=True, slots=True)
class Missing:
    """Packages that an image, named by its digest, does not have."""

    image: str
    requirements: tuple[Requirement, ...]

    @property
    def texts(self) -> list[str]:
        """The requirements as pip takes them."""
        return sorted(entry.text for entry in self.requirements)

    @property
    def key(self) -> tuple[str, ...]:
        """The same for whatever has the same installation."""
        return (self.image, *self.texts)


class Installer:
    """Installs, and remembers for an hour what it installed. ``run`` runs a request in a sandbox
    on the network (True) or without one. Any thread may call it."""

    def __init__(
        self,
        settings: InstallSettings,
        run: Callable[[RunRequest, bool, CancelToken], RunResult],
        image_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._run = run
        self._image_id = image_id
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], tuple[float, Archive]] = OrderedDict()
        self._present: dict[str, frozenset[str]] = {}

    @property
    def limits(self) -> Limits:
        """What an installation may use."""
        size_mib = self._settings.size_mib
        return Limits(
            seconds=self._settings.seconds,
            work_mib=size_mib,
            # pip unpacks beside the place where the files end.
            tmp_mib=3 * size_mib,
            files=1,
            file_mib=size_mib,
        )

    def missing(self, packages: Sequence[str], cancel: CancelToken) -> Missing:
        """What of these packages the image does not have. Raises InvalidRequest."""
        wanted = [read_requirement(text) for text in packages]
        self._check_names(wanted)
        image = self._image_id()
        return Missing(
            image,
            tuple(
                entry
                for entry in wanted
                if not (entry.is_plain and entry.name in self._in_image(image, cancel))
            ),
        )

    def kept(self, missing: Missing) -> Archive | None:
        """These packages and all that they need, if that is here already."""
        if not missing.requirements:
            return Archive(None, 0, ())
        with self._lock:
            since, archive = self._kept.get(missing.key, (0.0, None))
            if archive is None or time.monotonic() - since > _FRESH_SECONDS:
                return None
            self._kept.move_to_end(missing.key)
            return archive

    def fetch(self, missing: Missing, cancel: CancelToken) -> Archive:
        """Install these packages and all that they need. Raises InstallFailed, InvalidRequest."""
        archive = self._fetch(missing, cancel)
        self._keep(missing.key, archive)
        return archive

    def close(self) -> None:
        """Forget what was installed."""
        with self._lock:
            for _, archive in self._kept.values():
                if archive.content is not None:
                    archive.content.close()
            self._kept.clear()

    def _check_names(self, wanted: Sequence[Requirement]) -> None:
        allowed, denied = self._settings.allowed, self._settings.denied
        for entry in wanted:
            if entry.name in denied or (allowed and entry.name not in allowed):
                raise InvalidRequest(
                    f"The package {entry.name} may not be installed here. Do without, or ask "
                    "your administrator to allow it."
                )

    def _in_image(self, image: str, cancel: CancelToken) -> frozenset[str]:
        """Names of the packages that the image has."""
        if image not in self._present:
            step = Step(PYTHON.name, _PRESENT)
            result = self._run(RunRequest((step,)), False, cancel)
            try:
                names = json.loads(str(result.stdout))
                found = frozenset(normal_name(str(name)) for name in names)
            except (ValueError, TypeError):
                return frozenset()
            self._present = {image: found}
        return self._present[image]

    def _fetch(self, missing: Missing, cancel: CancelToken) -> Archive:
        settings, texts = self._settings, missing.texts
        program = _INSTALL_PROGRAM.format(
            wanted=texts,
            index=settings.index,
            host=re.sub(r"^\w+://|[:/].*$", "", settings.index),
            first=missing.requirements[0].name,
            connect=_INDEX_SECONDS,
            away=_INDEX_AWAY,
            archive=_ARCHIVE,
        )
        request = RunRequest((Step(PYTHON.name, program),), limits=self.limits)
        result = self._run(request, True, cancel)
        if result.outcome is not Outcome.OK:
            raise InstallFailed(_why(result, texts, settings))
        versions = _told_versions(str(result.stdout))
        for name in versions:
            if normal_name(name) in settings.denied:
                raise InvalidRequest(
                    f"These packages need {name}, which may not be installed here. Do without."
                )
        names = tuple(f"{name} {version}" for name, version in versions.items())
        for file in result.files:
            return Archive(file.content, file.size, names)
        if versions:
            raise InstallFailed(_too_large(settings))
        return Archive(None, 0, ())

    def _keep(self, key: tuple[str, ...], archive: Archive) -> None:
        """Those used last, as many as there is room for. A file that is still read stays until
        its reader has closed it."""
        with self._lock:
            self._kept[key] = (time.monotonic(), archive)
            while sum(kept.size for _, kept in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)


def _told_versions(untrusted_text: str) -> dict[str, str]:
    try:
        untrusted = json.loads(untrusted_text)
        return {
            clean_text(str(name)[:60]): clean_text(str(version)[:30])
            for name, version in list(untrusted.items())[:100]
        }
    except (ValueError, AttributeError):
        return {}


def _too_large(settings: InstallSettings) -> str:
    return (
        f"The packages need more than the {settings.size_mib} MB that there are for them. "
        "Install fewer, or do without."
    )


def _why(result: RunResult, texts: Sequence[str], settings: InstallSettings) -> str:
    """One sentence on why pip failed. What it printed came from the index, and is not shown."""
    named = ", ".join(texts)
    said = str(result.stderr)
    if result.outcome is Outcome.CANCELLED:
        return result.message
    if result.outcome is Outcome.TIMEOUT:
        return (
            f"Installing {named} took longer than {settings.seconds:g} s. Try again, or do "
            "without."
        )
    if result.outcome is Outcome.DISK_LIMIT or "No space left on device" in said:
        return _too_large(settings)
    if result.outcome is not Outcome.FAILED:
        return f"{named} could not be installed. {result.message}"
    if result.exit_code == _INDEX_AWAY:
        return (
            f"{named} could not be installed: the package index does not answer. Try again "
            "later, or do without; tell your administrator if it stays."
        )
    missing = re.search(r"No matching distribution found for ([\w.\[\]=<>!~+-]+)", said)
    if missing:
        return (
            f"The package index has nothing for {missing[1][:60]} that can be installed here: "
            "check name and version. Only ready-made packages (wheels) for this Python are "
            "taken."
        )
    if "ResolutionImpossible" in said or "conflicting dependencies" in said:
        return f"{named} cannot be installed together: they need different versions of others."
    return f"{named} could not be installed. Check the names, or do without."
