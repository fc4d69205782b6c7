"""Displays as entries to store and as embeds. What a browser makes of these: tests/e2e."""

import io
from html.parser import HTMLParser

from owui_plugin.displays import display_embeds, display_files
from sandbox_core.models import Display, RunResult
from sandbox_core.outcome import Outcome

HOSTILE = '"></iframe><script>alert(1)</script>&quot;{policy}'


class Tags(HTMLParser):
    """All tags of a document with their attributes."""

    def __init__(self, document):
        super().__init__()
        self.found = []
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def only(self, wanted):
        (attributes,) = [attributes for tag, attributes in self.found if tag == wanted]
        return attributes


def result_with(*contents, mime_type="text/html"):
    displays = tuple(
        Display(mime_type, f"value-{number}.html", len(text), io.BytesIO(text.encode()))
        for number, text in enumerate(contents, 1)
    )
    return RunResult("id", Outcome.OK, displays=displays)


def test_html_is_an_embed_with_a_frame_of_its_own():
    (document,) = display_embeds(result_with(HOSTILE))
    frame = Tags(document).only("iframe")
    assert frame["sandbox"] == "allow-scripts"
    assert frame["srcdoc"].startswith(HOSTILE)
    policies = [
        attributes["content"]
        for tag, attributes in Tags(document).found
        if "http-equiv" in attributes
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; ")


def test_only_html_that_a_chat_can_hold_is_embedded():
    assert display_embeds(result_with("<svg/>", mime_type="image/svg+xml")) == []
    assert display_embeds(result_with("x" * ((1 << 20) + 1))) == []
    assert len(display_embeds(result_with(*["x"] * 9))) == 4


def test_contents_can_be_read_again():
    result = result_with("<b>bold</b>")
    assert display_embeds(result) == display_embeds(result)
    (file,) = display_files(result)
    assert (file.name, file.size, file.content.read()) == (
        "value-1.html",
        11,
        b"<b>bold</b>",
    )
