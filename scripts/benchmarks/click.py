"""From the click on the button to the output on the page, in the real Open WebUI.

Open WebUI, a browser and a scripted model are those of the end-to-end tests.
"""

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from scripts.benchmarks.measurement import Measurement, at_most
from scripts.benchmarks.subject import BenchmarkError, Subject
from scripts.bringup.plugins import install, plugin_files
from tests.owui.browser import ChatPage, chromium
from tests.owui.client import ChatClient
from tests.owui.scripted_model import MODEL, ScriptedModel
from tests.owui.server import OpenWebUIServer

__all__ = ["measure_click"]

_EMAIL = "admin@example.com"
_REFILL_SECONDS = 6.0
_MOST_ROUNDS = 15
# In the page itself, so that the automation's own way to the browser does not count. The
# button's click and the first moment at which the text is laid out, in milliseconds.
_WATCH = """marker => {
    window.seenAfter = new Promise(resolve => {
        document.addEventListener('click', () => {
            const clicked = performance.now();
            const look = () => {
                const answer = [...document.querySelectorAll('#response-content-container')].at(-1);
                if (answer && answer.innerText.includes(marker)) {
                    resolve(performance.now() - clicked);
                } else {
                    requestAnimationFrame(look);
                }
            };
            requestAnimationFrame(look);
        }, {once: true, capture: true});
    });
}"""


def measure_click(subject: Subject, rounds: int) -> Iterator[Measurement]:
    """Clicks in chats of their own, each with a warm sandbox waiting."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        model = ScriptedModel()
        model.start()
        stack.callback(model.stop)
        server = OpenWebUIServer(Path(folder), model.url)
        stack.callback(server.stop)
        server.start()
        client = ChatClient(server.url, model=MODEL)
        password = secrets.token_urlsafe(12)
        client.sign_up("Ada Admin", _EMAIL, password)
        install(client, plugin_files(), report=lambda line: None)
        browser = stack.enter_context(chromium())
        page = ChatPage(browser, server.url)
        page.sign_in(_EMAIL, password)
        seconds = [
            _click(page, client, number)
            for number in range(min(rounds, _MOST_ROUNDS) + 1)
        ]
    yield Measurement(
        "click_to_visible_ms",
        "from the click to the visible output of print(1) in Chromium",
        "ms",
        tuple(seconds[1:]),  # the first one starts cold
        (at_most(400),),
    )


def _click(page: ChatPage, client: ChatClient, number: int) -> float:
    marker = f"shown-{number}-{secrets.token_hex(4)}"
    half = len(marker) // 2
    code = f"print({marker[:half]!r} + {marker[half:]!r})"
    answer = f"Here you go:\n\n```python\n{code}\n```\n"
    item = {
        "type": "message",
        "id": "msg_of_the_model",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": answer}],
    }
    turns = [("user", "please"), ("assistant", answer)]
    chat_id, _ = client.new_chat(turns, output=[item])
    page.open_chat(chat_id)
    page.action_button("Run code").wait_for()
    time.sleep(_REFILL_SECONDS)
    page.page.evaluate(_WATCH, marker)
    page.press("Run code")
    taken = page.page.evaluate("() => window.seenAfter")
    if not isinstance(taken, (int, float)):
        raise BenchmarkError("The output did not appear on the page.")
    return float(taken)
