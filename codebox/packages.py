"""What the sandbox images have: asked of a sandbox once for each image, and remembered."""

import asyncio

from codebox.execution import Execution
from codebox.refusals import NotReady
from codebox.settings import Settings
from sandbox_core.inventory import (
    Inventory,
    InventoryFailed,
    inventory_request,
    read_inventory,
)
from sandbox_core.languages import known_languages
from sandbox_core.languages_interpreted import PYTHON

__all__ = ["Inventories"]


class Inventories:
    """The inventories of all images, by their digests."""

    def __init__(self, settings: Settings, execution: Execution) -> None:
        self._settings = settings
        self._execution = execution
        self._lock = asyncio.Lock()
        self._known: dict[str, tuple[str, Inventory]] = {}

    async def of_python(self, user: str) -> Inventory:
        """That of the image in which Python runs. Raises NotReady, and Busy; the run, if one
        is needed, counts for this user."""
        return await self._of(self._settings.image_for(PYTHON.name), user)

    async def languages(self, user: str) -> dict[str, str]:
        """Versions of the languages that can be run, each in its own image. Raises as
        of_python."""
        versions: dict[str, str] = {}
        for language in known_languages():
            image = self._settings.image_for(language.name)
            found = (await self._of(image, user)).languages
            if language.name in found:
                versions[language.name] = found[language.name]
        return versions

    async def _of(self, image: str, user: str) -> Inventory:
        async with self._lock:
            digest = await self._execution.known_image_id(image)
            known = self._known.get(image)
            if known is None or not digest or known[0] != digest:
                known = (digest, await self._ask(image, user))
                self._known[image] = known
            return known[1]

    async def _ask(self, image: str, user: str) -> Inventory:
        ticket = self._execution.start(inventory_request(user), image=image)
        try:
            return read_inventory(await ticket.result())
        except InventoryFailed as error:
            raise NotReady(str(error)) from error
