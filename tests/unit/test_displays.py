"""What a run showed: names that count, pictures that are files, and the program behind it."""

import io

import pytest

from sandbox_core import launcher_display
from sandbox_core.displays import DISPLAY_LIMITS, name_displays
from sandbox_core.guest_program import display_program
from sandbox_core.limits import MIB
from sandbox_core.models import OutputFile, RunResult
from sandbox_core.outcome import Outcome
from sandbox_core.wire import RunReader, encode_result


def file_of(name, content=b"content"):
    return OutputFile(name, len(content), io.BytesIO(content))


def named(received, files=()):
    return [(entry.name, entry.mime_type) for entry in name_displays(received, files)]


def test_each_kind_is_counted_and_typed():
    received = [
        file_of(name, name.encode())
        for name in ("001-figure.png", "002-value.html", "003-image.jpg")
    ] + [file_of("1000-figure.svg", b"svg")]
    assert named(received) == [
        ("figure-1.png", "image/png"),
        ("value-1.html", "text/html"),
        ("image-1.jpg", "image/jpeg"),
        ("figure-2.svg", "image/svg+xml"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "1-figure.png",
        "001-figure.exe",
        "001-other.png",
        "folder/001-figure.png",
        "001-figure.png\n",
        "001-figure.png.part",
        "٠٠١-figure.gif",
    ],
)
def test_other_names_are_no_displays(name):
    untrusted = file_of(name)
    assert named([untrusted]) == []
    assert untrusted.content.closed


def test_the_same_picture_is_shown_once():
    file = file_of("bars.png", b"picture")
    received = [
        file_of("001-figure.png", b"another"),
        file_of("002-figure.png", b"picture"),
        file_of("003-value.png", b"another"),
    ]
    (display,) = name_displays(received, [file])
    assert (display.name, display.content.read()) == ("figure-1.png", b"another")
    assert file.content.read() == b"picture"


def test_no_file_of_the_run_has_the_name():
    files = [file_of("figure-1.png", b"the program's own")]
    assert named([file_of("001-figure.png")], files) == [
        ("figure-1_2.png", "image/png")
    ]


def test_displays_cross_as_plain_values():
    displays = name_displays([file_of("001-figure.png")], ())
    result = RunResult("id", Outcome.OK, displays=displays)
    assert RunResult.from_plain(result.to_plain()) == result


def test_displays_cross_the_wire_beside_files():
    files = (file_of("bars.png", b"file"), file_of("empty", b""))
    displays = name_displays([file_of("001-value.html", b"display" * 99_999)], files)
    reader = RunReader()
    for line in encode_result(
        RunResult("id", Outcome.OK, files=files, displays=displays)
    ):
        reader.take(line)
    (display,) = reader.result.displays
    assert (display.name, display.mime_type) == ("value-1.html", "text/html")
    assert display.content.read() == b"display" * 99_999
    assert display.size == 7 * 99_999
    received = [(entry.name, entry.content.read()) for entry in reader.result.files]
    assert received == [("bars.png", b"file"), ("empty", b"")]


def test_the_launcher_keeps_to_the_same_limits():
    kept = (
        launcher_display.MOST_DISPLAYS,
        launcher_display.LARGEST_DISPLAY,
        launcher_display.ALL_DISPLAYS,
    )
    limits = DISPLAY_LIMITS
    assert kept == (limits.files, limits.file_mib * MIB, limits.work_mib * MIB)


def test_the_display_program_stands_alone():
    space = {"__name__": "display"}
    exec(compile(display_program(), "display", "exec"), space)
    assert space["Display"]("/nowhere").text_of("no rich value") is None
    assert "sandbox_core" not in display_program()
