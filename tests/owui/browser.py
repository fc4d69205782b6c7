"""A person at the browser: page object for Open WebUI 0.12.4 in headless Chromium."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from playwright.sync_api import (
    Browser,
    Locator,
    Page,
    Request,
    StorageState,
    sync_playwright,
)
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout

__all__ = ["ChatPage", "chromium"]

_EXECUTABLE = "/usr/bin/chromium"
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--metrics-recording-only",
    # Nothing but this machine can be found by name.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
_LOAD_ATTEMPTS = 3
_LOOKS = 10  # 0.3 s apart
_SECOND = 1000.0  # Playwright counts in milliseconds

_ANSWER_IS_DONE = """() => {
    const messages = [...document.querySelectorAll('[id^="message-"]')]
        .filter(node => /^message-[0-9a-f]{8}-/.test(node.id));
    const last = messages.at(-1);
    return !!last && !!last.querySelector('#response-content-container')
        && !!last.querySelector('button[aria-label="Copy"]')
        && !document.querySelector('button[aria-label="Stop"]');
}"""

# A button's text breaks into lines as its place on the page allows. No frame is drawn between
# hiding and showing them, so nobody sees it.
_TEXT_OF_ANSWER = """answer => {
    const style = document.createElement('style');
    style.textContent = '#response-content-container button { display: none !important }';
    document.head.append(style);
    try {
        return answer.innerText;
    } finally {
        style.remove();
    }
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium that cannot reach anything outside this machine."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=_EXECUTABLE, headless=True, args=_FLAGS
        )
        try:
            yield browser
        finally:
            browser.close()


class ChatPage:
    """One tab of one person. Times are in seconds; a wait that fails raises.

    `session` (from `ChatPage.session` of another tab) makes the person signed in already.
    """

    def __init__(
        self, browser: Browser, url: str, session: StorageState | None = None
    ) -> None:
        self._context = browser.new_context(
            viewport={"width": 1280, "height": 1000}, storage_state=session
        )
        self.page: Page = self._context.new_page()
        self._url = url
        self._requests: list[str] = []
        self.page.on("request", self._note_request)
        self._greeting = self.page.get_by_role("button", name="Okay, Let's Go!")
        # On a busy machine it comes late, and lies over what a test clicks.
        self.page.add_locator_handler(self._greeting, lambda button: button.click())

    # -- coming and going ------------------------------------------------------------

    def sign_in(self, email: str, password: str) -> None:
        """Sign in with the form and close the greetings."""
        self._load(lambda: self._fill_in_sign_in(email, password))
        with suppress(PlaywrightTimeout):
            self._greeting.click(timeout=3 * _SECOND)

    def session(self) -> StorageState:
        """What the browser keeps of the sign-in, for further tabs of the same person."""
        return self._context.storage_state()

    def new_chat(self, model: str, *, temporary: bool = False) -> None:
        """Open an empty chat with this model."""
        extra = "&temporary-chat=true" if temporary else ""
        self._open(f"/?models={model}{extra}")
        # The page adds a model's tools to a question only once it has fetched the list of
        # tools, and nothing in it tells when. (It polls, so the network is never idle.)
        self.page.wait_for_timeout(1 * _SECOND)

    def open_chat(self, chat_id: str) -> None:
        """Open a stored chat."""
        self._open(f"/c/{chat_id}")
        self._wait_until_drawn()

    def open_shared_chat(self, share_id: str) -> None:
        """Open a chat that somebody else shared."""
        self._open(f"/s/{share_id}", self.page.locator("[id^='message-']").first)

    def reload(self) -> None:
        """Load the page anew."""
        self._load(lambda: self.page.reload(wait_until="domcontentloaded"))
        self._wait_until_drawn()

    def close(self) -> None:
        """Close the tab."""
        self._context.close()

    @property
    def chat_id(self) -> str:
        """Id of the open, saved chat."""
        self.page.wait_for_url(re.compile("/c/"), timeout=20 * _SECOND)
        return self.page.url.rsplit("/c/", 1)[1].split("?")[0]

    # -- talking ---------------------------------------------------------------------

    def send(self, text: str) -> None:
        """Type a question and send it."""
        self._composer.click()
        self.page.keyboard.insert_text(text)
        self.page.keyboard.press("Enter")

    def wait_for_answer(self, timeout: float = 60.0) -> None:
        """Wait until the last answer is complete."""
        self.page.wait_for_function(_ANSWER_IS_DONE, timeout=timeout * _SECOND)

    def ask(self, text: str, timeout: float = 60.0) -> None:
        """Send a question and wait for the complete answer."""
        answers = self.answer_count()
        self.send(text)
        self.page.wait_for_function(
            "count => document.querySelectorAll('#response-content-container').length > count",
            arg=answers,
            timeout=timeout * _SECOND,
        )
        self.wait_for_answer(timeout)

    def stop(self) -> None:
        """Press the Stop button of the running answer."""
        self.page.get_by_role("button", name="Stop", exact=True).click()

    def attach(self, *files: Path) -> None:
        """Attach files to the next question and wait until they are uploaded."""
        chooser = self.page.locator("input[type=file]").first
        with self.page.expect_response(lambda r: "/api/v1/files" in r.url):
            chooser.set_input_files([str(file) for file in files])

    def wait_for_pictures(self, count: int, timeout: float = 20.0) -> None:
        """Wait until this many stored pictures are drawn on the page, not just placed."""
        self.page.wait_for_function(
            """count => [...document.querySelectorAll('[id^="message-"] img')]
                .filter(image => image.src.includes('/api/v1/files/')
                    && image.naturalWidth > 99)
                .length === count""",
            arg=count,
            timeout=timeout * _SECOND,
        )

    # -- the action's button -----------------------------------------------------------

    def action_button(self, label: str) -> Locator:
        """The button of this label below the last answer."""
        return self.page.get_by_role("button", name=label, exact=True).last

    def press(self, label: str) -> None:
        """Press an action's button below the last answer."""
        button = self.action_button(label)
        button.scroll_into_view_if_needed(timeout=15 * _SECOND)
        button.click(timeout=15 * _SECOND)

    def press_and_wait(self, label: str, timeout: float = 60.0) -> int:
        """Press the button and wait until the action has returned; its HTTP status."""
        with self.page.expect_response(
            lambda response: "/api/chat/actions/" in response.url,
            timeout=timeout * _SECOND,
        ) as waiting:
            self.press(label)
        return int(waiting.value.status)

    # -- dialogs of plugins --------------------------------------------------------------

    def dialog(self, timeout: float = 15.0) -> Locator:
        """The open dialog of a plugin, once it is there."""
        dialog = self.page.get_by_role("dialog").last
        dialog.wait_for(timeout=timeout * _SECOND)
        return dialog

    def dialog_options(self) -> list[str]:
        """Labels offered by the select dialog, without the placeholder."""
        return self.dialog().locator("option:not([disabled])").all_inner_texts()

    def choose(self, label: str) -> None:
        """Pick an option of the select dialog and confirm."""
        self.dialog().locator("select").select_option(label=label)
        self.confirm()

    def confirm(self) -> None:
        """Press Confirm in the open dialog."""
        self.dialog().get_by_role("button", name="Confirm", exact=True).click()

    def cancel(self) -> None:
        """Press Cancel in the open dialog."""
        self.dialog().get_by_role("button", name="Cancel", exact=True).click()

    # -- seeing ------------------------------------------------------------------------

    def answer_count(self) -> int:
        """How many answers the page shows."""
        return self.page.locator("#response-content-container").count()

    def answer_text(self) -> str:
        """Visible text of the last answer, without buttons and status."""
        answers = self.page.locator("#response-content-container:visible")
        return str(answers.last.evaluate(_TEXT_OF_ANSWER)) if answers.count() else ""

    def visible_text(self) -> str:
        """Visible text of the whole page, messages in toasts included."""
        return str(self.page.evaluate("document.body.innerText"))

    def wait_for_text(self, text: str, timeout: float = 60.0) -> None:
        """Wait until the text is visible anywhere on the page."""
        self.page.wait_for_function(
            "text => document.body.innerText.includes(text)",
            arg=text,
            timeout=timeout * _SECOND,
        )

    def wait_for_answer_text(self, text: str, timeout: float = 60.0) -> None:
        """Wait until the last answer shows the text."""
        self.page.wait_for_function(
            """text => [...document.querySelectorAll('#response-content-container')]
                .at(-1)?.innerText.includes(text)""",
            arg=text,
            timeout=timeout * _SECOND,
        )

    def status_lines(self) -> list[str]:
        """Grey status lines above the answers, oldest first."""
        return self.page.locator(".status-description").all_inner_texts()

    def is_shimmering(self) -> bool:
        """Tell whether a status line still moves, as if something were running."""
        return self.page.locator(".status-description .shimmer").count() > 0

    def title(self) -> str:
        """The page's title: a script that got through could have changed it."""
        return self.page.title()

    def requests_elsewhere(self) -> list[str]:
        """Addresses outside this server that the tab asked for since it was opened."""
        local = (self._url, self._url.replace("http", "ws"), "data:", "blob:")
        return [url for url in self._requests if not url.startswith(local)]

    def screenshot(self, file: Path) -> None:
        """Store a picture of the window."""
        file.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=file)

    def _fill_in_sign_in(self, email: str, password: str) -> None:
        self.page.goto(f"{self._url}/auth", wait_until="domcontentloaded")
        self.page.fill("input[type=email]", email)
        self.page.fill("input[type=password]", password)
        self.page.click("button[type=submit]")

    def _note_request(self, request: Request) -> None:
        self._requests.append(request.url)

    def _open(self, path: str, landmark: Locator | None = None) -> None:
        self._load(
            lambda: self.page.goto(self._url + path, wait_until="domcontentloaded"),
            landmark,
        )

    def _load(
        self, navigate: Callable[[], object], landmark: Locator | None = None
    ) -> None:
        """``landmark``: what a page has once it is there, if not a place to write."""
        # Chromium drops its requests whenever a network interface of the machine comes or
        # goes; Open WebUI's page then stays empty or shows an error until it is reloaded.
        landmark = landmark or self._composer
        for attempt in range(1, _LOAD_ATTEMPTS + 1):
            try:
                navigate()
                failed = self.page.get_by_text("500: Internal Error")
                landmark.or_(failed).wait_for(timeout=20 * _SECOND)
            except PlaywrightError:
                if attempt == _LOAD_ATTEMPTS:
                    raise
            if landmark.is_visible():
                return
        raise AssertionError("Open WebUI shows an error instead of its page")

    def _wait_until_drawn(self) -> None:
        """Wait for the messages, and until the last answer no longer changes by itself.

        Open WebUI puts code blocks and styles in place after the text. An answer that goes
        on changing, because its program runs, is waited for no longer than three seconds.
        """
        self.page.wait_for_selector("[id^='message-']", timeout=30 * _SECOND)
        before = self.answer_text()
        for _ in range(_LOOKS):
            self.page.wait_for_timeout(0.3 * _SECOND)
            now = self.answer_text()
            if now and now == before:
                return
            before = now

    @property
    def _composer(self) -> Locator:
        return self.page.locator("#chat-input")
