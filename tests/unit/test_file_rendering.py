"""The files of a run as Markdown."""

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from owui_plugin.file_rendering import file_chips, render_files, size_text
from owui_plugin.file_store import KeptFile, KeptFiles
from owui_plugin.media_types import media_type
from owui_plugin.render import strip_results
from sandbox_core.models import SkippedFile
from sandbox_core.outcome import Outcome


def kept(*names: str, kind: str = "made", start: bytes = b"") -> KeptFiles:
    return KeptFiles(
        tuple(
            KeptFile(name, 8, f"id-{number}", kind, media_type(name), start)
            for number, name in enumerate(names)
        )
    )


def render(files: KeptFiles, outcome: Outcome = Outcome.OK) -> str:
    return render_files(files, files.refused, outcome)


def links_of(markdown: str) -> list[str]:
    tokens = MarkdownIt().parse(markdown)
    inline = [child for token in tokens for child in token.children or ()]
    return [str(t.attrs["href"]) for t in inline if t.type == "link_open"]


def test_what_was_shown_is_pictures_before_the_files() -> None:
    kept = KeptFiles(
        (
            KeptFile("figure-1.png", 10, "f1", "shown", "image/png"),
            KeptFile("value-1.html", 10, "f2", "shown", "text/html"),
            KeptFile("bars.png", 10, "f3", "made", "image/png"),
        )
    )
    lines = render_files(kept, (), Outcome.OK).split("\n")
    assert lines[1:6] == [
        "**Run code** · 2 shown · 1 file",
        "![figure-1.png](/api/v1/files/f1/content)",
        "![bars.png](/api/v1/files/f3/content)",
        "- [value-1.html](/api/v1/files/f2/content?attachment=true) · 10 bytes",
        "- [bars.png](/api/v1/files/f3/content?attachment=true) · 10 bytes",
    ]


def test_nothing_made_is_nothing_shown() -> None:
    assert render(KeptFiles()) == ""


def test_pictures_players_links_and_previews() -> None:
    files = kept("a.png", "b.wav", "c.mp4", "d.csv", start=b"x,y\n1,2\n")
    text = render(files)
    assert "**Run code** · 4 files\n" in text
    assert "![a.png](/api/v1/files/id-0/content)" in text
    assert "\n<audio>\n/api/v1/files/id-1/content\n</audio>\n" in text
    assert "\n<video>\n/api/v1/files/id-2/content\n</video>\n" in text
    assert "- [d.csv](/api/v1/files/id-3/content?attachment=true) · 8 bytes" in text
    assert "```text\nx,y\n1,2\n```" in text


def test_files_of_an_unfinished_run_are_marked() -> None:
    assert "from a run that did not finish" in render(kept("a.csv"), Outcome.TIMEOUT)
    assert "from a run that did not finish" in render(kept("a.csv"), Outcome.CANCELLED)
    assert "did not finish" not in render(kept("a.csv"), Outcome.FAILED)


@given(st.lists(st.text(min_size=1, max_size=300), min_size=1, max_size=5))
def test_no_name_breaks_its_link_or_makes_another(names: list[str]) -> None:
    markdown = render(kept(*names))
    expected = [
        f"/api/v1/files/id-{n}/content?attachment=true" for n in range(len(names))
    ]
    assert links_of(markdown) == expected
    html = MarkdownIt("commonmark", {"html": True}).render(markdown)
    assert "<script" not in html
    assert "<b>" not in html


def test_many_files_are_few_lines() -> None:
    files = kept(*(f"f{n}.bin" for n in range(100)))
    archive = kept("files.zip", kind="archive")
    text = render(KeptFiles((*files.files, *archive.files)))
    assert "all files in one archive" in text
    assert "and 70 more" in text
    assert "100 files" in text


def test_what_was_not_kept_is_told_by_reason() -> None:
    skipped = [SkippedFile(f"f{n}", "empty") for n in range(100)]
    skipped += [SkippedFile("", "2900 files beyond the limit of 100")]
    text = render_files(KeptFiles(), skipped, Outcome.OK)
    assert "f0, f1" in text
    assert "and 90 more: empty" in text
    assert "2900 files beyond the limit" in text
    assert len(text) < 600


def test_ten_pictures_take_less_than_two_kib() -> None:
    files = KeptFiles(
        tuple(
            KeptFile(f"p{n}.png", 9, "0" * 36, "made", "image/png") for n in range(10)
        )
    )
    assert len(render(files).encode()) < 2048


def test_our_section_holds_no_code_to_run() -> None:
    text = "```python\nprint(1)\n```\n" + render(kept("a.png"))
    assert "a.png" not in strip_results(text)


def test_chips_for_a_chat_that_is_stored_nowhere() -> None:
    image, file = file_chips(kept("a.png", "b.csv"))
    assert image == {
        "type": "image",
        "url": "/api/v1/files/id-0/content",
        "name": "a.png",
    }
    assert file["id"] == file["url"] == "id-1"


def test_sizes_are_for_people() -> None:
    assert size_text(1) == "1 byte"
    assert size_text(999) == "999 bytes"
    assert size_text(1536) == "1.5 KB"
    assert size_text(5 << 20) == "5.0 MB"
