"""The parts of one service, made once, and what every call goes through before it may act."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from codebox.counters import Counters
from codebox.execution import Execution, Ticket
from codebox.identity import Gatekeeper, Identity, NotAuthorised
from codebox.metrics import Metrics
from codebox.openwebui import OpenWebUI
from codebox.packages import Inventories
from codebox.readiness import Readiness
from codebox.refusals import NotReady, RateLimited
from codebox.settings import Settings
from sandbox_core.data_folders import DataFolders, parse_data_folders
from sandbox_core.deadline import Deadline
from sandbox_core.engines.base import Engine
from sandbox_core.engines.choice import make_engine
from sandbox_core.languages import use_added_languages
from sandbox_core.models import OnEvent, RunRequest
from sandbox_core.network_runner import NetworkRunner
from sandbox_core.reaper import Reaper
from sandbox_core.runner import LocalRunner

__all__ = ["Service"]

_IMAGE_SECONDS = 5.0


class Service:
    """Everything that the HTTP and the MCP side share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        use_added_languages(settings.added_languages)
        self.metrics = Metrics(settings)
        self.counters = Counters(settings)
        sessions = settings.owui_session_tokens
        self.openwebui = OpenWebUI(settings) if sessions else None
        self.execution = Execution(
            settings, self._make_runner, self._image_id, self.metrics
        )
        self.readiness = Readiness(settings, self._make_engine, self.counters)
        self.inventories = Inventories(settings, self.execution)
        self._gatekeeper = Gatekeeper(settings, self.counters, self.openwebui)

    async def authenticate(
        self, headers: Mapping[str, str], authorizations: int, address: str
    ) -> Identity:
        """Who calls. Raises NotAuthorised, RateLimited when too many bad tokens came from
        this address, CountersLost, OpenWebUIDown. See Gatekeeper.identify."""
        may_guess = await self.counters.may_guess(address)
        try:
            return await self._gatekeeper.identify(headers, authorizations, may_guess)
        except NotAuthorised:
            self.metrics.count_refusal("token")
            if not await self.counters.count_refusal(address):
                raise RateLimited(60) from None
            raise

    def start(self, request: RunRequest, on_event: OnEvent | None = None) -> Ticket:
        """Start a run of an authenticated user. Raises NotReady, Busy, InvalidRequest."""
        self.check_ready()
        return self.execution.start(request, on_event)

    def check_ready(self) -> None:
        """Raises NotReady as long as the sandboxes are not proven."""
        if refusal := self.readiness.why_not():
            raise NotReady(refusal)

    async def count_call(self, user: str) -> None:
        """Count a call that may start a run. Raises RateLimited, CountersLost."""
        seconds = await self.counters.count_call(user)
        if seconds is not None:
            raise RateLimited(seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The time in which the service serves: proofs, reaper, and a clean end."""
        reaper = Reaper(self._make_engine(self.settings.image))
        reaper.start()
        proving = asyncio.create_task(self.readiness.keep_proving())
        watching = asyncio.create_task(self.metrics.watch_loop())
        try:
            yield
        finally:
            proving.cancel()
            watching.cancel()
            reaper.stop()
            await self.execution.close()
            if self.openwebui is not None:
                await self.openwebui.close()

    def _make_engine(self, image: str) -> Engine:
        settings = self.settings
        return make_engine(
            settings.container_backend,
            settings.docker_host,
            image,
            settings.runtime,
            runsc=settings.runsc_path,
            images_folder=settings.images_folder,
        )

    def _make_runner(self, image: str) -> LocalRunner:
        engine, settings = self._make_engine(image), self.settings
        folders = parse_data_folders(settings.data_folders)
        return NetworkRunner(
            engine,
            image,
            settings.runtime,
            settings.networks,
            pool=settings.pool,
            data_folders=DataFolders(folders, engine_is_here=engine.is_here),
        )

    def _image_id(self, image: str) -> str:
        return self._make_engine(image).image_id(Deadline(_IMAGE_SECONDS))
