"""Whether the service can run code: looked at often, and proven once before any run."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from codebox.counters import Counters
from codebox.settings import Settings
from sandbox_core.deadline import Deadline
from sandbox_core.doctor import examine
from sandbox_core.engines.base import Engine, Finding
from sandbox_core.languages import known_languages
from sandbox_core.languages_interpreted import PYTHON
from sandbox_core.network_proof import examine_network
from sandbox_core.network_runner import NetworkRunner

__all__ = ["Readiness"]

_log = logging.getLogger("codebox.readiness")
_CHECK_SECONDS = 10.0
_FRESH_SECONDS = 5.0
_PROVE_AGAIN_SECONDS = 60.0
_UNPROVEN = "The code service is still checking its sandboxes. Try again in a minute."
_DISPROVEN = (
    "The code service refuses to run code, because its check of the sandboxes failed. Tell "
    "your administrator: the cause is in its log and at /ready."
)


class Readiness:
    """Findings about engine, images and counters. ``make_engine`` gives the engine that
    looks for an image."""

    def __init__(
        self,
        settings: Settings,
        make_engine: Callable[[str], Engine],
        counters: Counters,
    ) -> None:
        self._settings = settings
        self._make_engine = make_engine
        self._counters = counters
        self._images: dict[str, list[str]] = {}
        for language in known_languages():
            image = settings.image_for(language.name)
            self._images.setdefault(image, []).append(language.name)
        self._proofs: list[Finding] | None = None if settings.self_test else []
        self._seen: tuple[float, list[Finding]] = (0.0, [])
        self._lock = asyncio.Lock()

    def why_not(self) -> str:
        """A sentence when nothing may run; empty when the proofs hold."""
        if self._proofs is None:
            return _UNPROVEN
        return "" if _all_well(self._proofs) else _DISPROVEN

    async def findings(self) -> tuple[bool, list[Finding]]:
        """Whether code can run now, and everything that was looked at for it."""
        async with self._lock:
            until, seen = self._seen
            if time.monotonic() > until:
                seen = await asyncio.to_thread(self._look)
                self._seen = (time.monotonic() + _FRESH_SECONDS, seen)
        found = [*seen, await self._look_at_counters(), *(self._proofs or [])]
        if self._proofs is None:
            found.append(Finding("self-test", False, _UNPROVEN))
        return _all_well(found), found

    async def keep_proving(self) -> None:
        """Prove until the proofs hold, and then return. A task of the service."""
        while self.why_not():
            self._proofs = await asyncio.to_thread(self._prove)
            for finding in self._proofs:
                if not finding.ok:
                    _log.error("%s: %s %s", finding.name, finding.text, finding.mend)
            if not _all_well(self._proofs):
                await asyncio.sleep(_PROVE_AGAIN_SECONDS)
        _log.info("the sandboxes are proven: code can run")

    def _look(self) -> list[Finding]:
        found: dict[str, Finding] = {}
        for image in self._images:
            for finding in self._make_engine(image).check(Deadline(_CHECK_SECONDS)):
                found[finding.text] = finding
        return list(found.values())

    def _prove(self) -> list[Finding]:
        found: list[Finding] = []
        for image, names in self._images.items():
            languages = [entry for entry in known_languages() if entry.name in names]
            found += examine(
                self._make_engine(image),
                image,
                self._settings.runtime,
                languages,
                self._settings.limits,
                self._settings.accepted,
            )
        return found + self._prove_network()

    def _prove_network(self) -> list[Finding]:
        settings = self._settings
        image = settings.image_for(PYTHON.name)
        engine = self._make_engine(image)
        runner = NetworkRunner(engine, image, settings.runtime, settings.networks)
        try:
            return examine_network(runner)
        finally:
            runner.close()

    async def _look_at_counters(self) -> Finding:
        if await self._counters.check():
            return Finding("limits", True, "The counts of the limits can be reached.")
        mend = "start Redis, or correct CODEBOX_STORAGE_URL"
        return Finding("limits", False, "The counts cannot be reached.", mend)


def _all_well(findings: Sequence[Finding]) -> bool:
    return all(finding.ok for finding in findings)
