"""One real Open WebUI, a scripted model and a real browser for all end-to-end tests."""

import os
import secrets
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, StorageState

from scripts.bringup.plugins import install, plugin_files
from tests.e2e.runs import valves
from tests.owui.browser import ChatPage, chromium
from tests.owui.client import ChatClient
from tests.owui.scripted_model import MODEL, ScriptedModel
from tests.owui.server import OpenWebUIServer

_FAILED = pytest.StashKey[bool]()
_FOLDER = Path(__file__).parent
_SCREENSHOTS = _FOLDER / "screenshots"


@dataclass(frozen=True)
class Person:
    """An account of the test server: REST client and what a browser tab needs."""

    client: ChatClient
    session: StorageState


@pytest.fixture(scope="session")
def model_server() -> Iterator[ScriptedModel]:
    server = ScriptedModel()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def model(model_server: ScriptedModel) -> ScriptedModel:
    """The scripted model without a script and without remembered requests."""
    model_server.script()
    return model_server


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, model_server: ScriptedModel
) -> Iterator[OpenWebUIServer]:
    server = OpenWebUIServer(tmp_path_factory.mktemp("open-webui"), model_server.url)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def admin(server: OpenWebUIServer, browser: Browser) -> Person:
    client = ChatClient(server.url, model=MODEL)
    email, password = "admin@example.com", secrets.token_urlsafe(12)
    client.sign_up("Ada Admin", email, password)
    client.publish_model(MODEL)
    return Person(client, browser_session(browser, server.url, email, password))


@pytest.fixture(scope="session")
def member(server: OpenWebUIServer, browser: Browser, admin: Person) -> Person:
    """An ordinary user."""
    email, password = "bob@example.com", secrets.token_urlsafe(12)
    admin.client.add_user("Bob Member", email, password)
    client = ChatClient(server.url, model=MODEL)
    client.sign_in(email, password)
    return Person(client, browser_session(browser, server.url, email, password))


@pytest.fixture(scope="session")
def plugins(admin: Person) -> None:
    """Both plugin files, installed as an administrator does it."""
    install(admin.client, plugin_files())


@pytest.fixture(scope="module")
def cold(plugins: None, admin: Person) -> Iterator[None]:
    """No sandboxes are kept ready, so that each one that there is belongs to a run."""
    with valves(admin.client, warm_sandboxes=0):
        yield


@pytest.fixture
def open_page(
    request: pytest.FixtureRequest,
    browser: Browser,
    server: OpenWebUIServer,
    picture: Callable[[ChatPage, str], None],
) -> Iterator[Callable[[Person], ChatPage]]:
    """`open_page(member)` opens a tab; a failed test leaves a picture of each."""
    pages: list[ChatPage] = []

    def open_page(person: Person) -> ChatPage:
        pages.append(ChatPage(browser, server.url, person.session))
        return pages[-1]

    yield open_page
    for number, page in enumerate(pages):
        if request.node.stash.get(_FAILED, False):
            picture(page, f"failed-{number}")
        page.close()


@pytest.fixture
def admin_page(open_page: Callable[[Person], ChatPage], admin: Person) -> ChatPage:
    return open_page(admin)


@pytest.fixture
def member_page(open_page: Callable[[Person], ChatPage], member: Person) -> ChatPage:
    return open_page(member)


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[ChatPage, str], None]:
    """`picture(page, "after")` stores a screenshot named after the test.

    RUN_CODE_SCREENSHOTS names another folder than tests/e2e/screenshots.
    """
    folder = Path(os.environ.get("RUN_CODE_SCREENSHOTS", _SCREENSHOTS))

    def take(page: ChatPage, moment: str) -> None:
        page.screenshot(folder / f"{request.node.name}-{moment}.png")

    return take


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Chromium and Open WebUI's page fail now and then on a busy machine, for reasons of their
    own: a test here gets one second try, which the summary shows. No other test does.
    """
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_FAILED] = report.failed
    return report


def browser_session(
    browser: Browser, url: str, email: str, password: str
) -> StorageState:
    """What a tab needs to be this person's."""
    page = ChatPage(browser, url)
    page.sign_in(email, password)
    session = page.session()
    page.close()
    return session
