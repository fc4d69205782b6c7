"""What is installed in the sandbox image: asked of a sandbox, and remembered."""

import asyncio
import json
import time
from typing import Any

from codebox.execution import Execution
from codebox.refusals import NotReady
from sandbox_core.models import RunRequest, Step
from sandbox_core.outcome import Outcome

__all__ = ["PackageList"]

_FRESH_SECONDS = 600.0
_PROGRAM = """
import importlib.metadata, json, sys
found = {
    entry.metadata["Name"]: entry.version
    for entry in importlib.metadata.distributions()
    if entry.metadata["Name"]
}
packages = [{"name": name, "version": found[name]} for name in sorted(found, key=str.lower)]
print(json.dumps({"python": sys.version.split()[0], "packages": packages}))
"""


class PackageList:
    """The Python packages of the sandboxes, at most ten minutes old."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._lock = asyncio.Lock()
        self._known: tuple[float, dict[str, Any]] | None = None

    async def get(self, user: str) -> dict[str, Any]:
        """``{"python": version, "packages": [{"name", "version"}, …]}``. Raises NotReady,
        and Busy; the run, if one is needed, counts for this user."""
        async with self._lock:
            if self._known is None or self._known[0] < time.monotonic():
                listed = await self._ask(user)
                self._known = (time.monotonic() + _FRESH_SECONDS, listed)
            return self._known[1]

    async def _ask(self, user: str) -> dict[str, Any]:
        request = RunRequest(steps=(Step("python", _PROGRAM),), user=user)
        result = await self._execution.start(request).result()
        if result.outcome is not Outcome.OK:
            raise NotReady(f"The packages could not be listed. {result.message}")
        return dict(json.loads(str(result.stdout)))
