"""What a run showed, for Open WebUI: entries to store, and interactive parts as embeds.

HTML of a program is active content. It is never put into Markdown; stored, it is a download;
and as an embed it is two frames deep. The outer one is Open WebUI's, whose sandbox a user can
open to Open WebUI's own origin in the settings. The inner one is ours: scripts and nothing
else, an origin of its own always, no network but the libraries that charts are drawn with.
"""

import html

from sandbox_core.models import OutputFile, RunResult

__all__ = ["display_embeds", "display_files"]

_LARGEST_EMBED = 1 << 20
_MOST_EMBEDS = 4
_TALLEST = 2000  # pixels
_HTML_TYPE = "text/html"

# Where charts of plotly, Altair and Bokeh get their scripts.
_LIBRARIES = "https://cdn.plot.ly https://cdn.jsdelivr.net https://cdn.bokeh.org"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'unsafe-inline' 'unsafe-eval' blob: {_LIBRARIES}",
        f"style-src 'unsafe-inline' {_LIBRARIES}",
        f"font-src data: {_LIBRARIES}",
        "img-src data: blob:",
        "media-src data: blob:",
        "worker-src blob:",
        "form-action 'none'",
        "base-uri 'none'",
    )
)

# The inner document tells how tall it is; the outer one believes numbers only, and passes
# them on as Open WebUI expects them.
_MEASURING = """<script>
new ResizeObserver(() => parent.postMessage(document.documentElement.scrollHeight, "*"))
  .observe(document.documentElement);
</script>"""
_OUTER = """<!DOCTYPE html>
<html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>html, body {{ margin: 0; background: white }} iframe {{ border: 0; width: 100% }}</style>
</head><body>
<iframe title="{title}" sandbox="allow-scripts" srcdoc="{inner}"></iframe>
<script>
const frame = document.querySelector("iframe");
addEventListener("message", (event) => {{
  if (event.source !== frame.contentWindow || !Number.isFinite(event.data)) return;
  const height = Math.max(40, Math.min({tallest}, Math.ceil(event.data)));
  frame.style.height = height + "px";
  parent.postMessage({{ type: "iframe:height", height: height + 8 }}, "*");
}});
</script>
</body></html>
"""


def display_files(result: RunResult) -> tuple[OutputFile, ...]:
    """Every display as a file to store, in the order in which they were shown."""
    return tuple(
        OutputFile(entry.name, entry.size, entry.content) for entry in result.displays
    )


def display_embeds(result: RunResult) -> list[str]:
    """HTML documents for Open WebUI's ``embeds`` event, for the HTML that the run showed.

    What is too large for a chat to hold is left out; it is among display_files all the same.
    """
    embeds = []
    for entry in result.displays:
        if entry.mime_type == _HTML_TYPE and entry.size <= _LARGEST_EMBED:
            entry.content.seek(0)
            untrusted_html = entry.content.read().decode("utf-8", "replace")
            entry.content.seek(0)
            embeds.append(_isolated(untrusted_html, entry.name))
    return embeds[:_MOST_EMBEDS]


def _isolated(untrusted_html: str, title: str) -> str:
    return _OUTER.format(
        policy=_POLICY,
        title=html.escape(title),
        inner=html.escape(untrusted_html + _MEASURING),
        tallest=_TALLEST,
    )
