"""Names and sizes of files, in and out."""

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.archive import FileReceiver, plan_files, safe_output_name
from sandbox_core.errors import InvalidRequest, ProtocolError
from sandbox_core.limits import Limits
from sandbox_core.models import InputFile, RunRequest, SkippedFile, Step

MIB = 1 << 20


def plan(*names, steps=(("python", "1"),), limits=None, size=1, stdin=b""):
    return plan_files(
        RunRequest(
            steps=tuple(Step(*step) for step in steps),
            files=tuple(InputFile(name, b"x" * size) for name in names),
            limits=limits or Limits(),
            stdin=stdin,
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a b.txt",
        "folder/a",
        "ü/🧪.txt",
        "-rf",
        "x" * 255,
        "new\nline",
        "...",
        "~",
        "CON",
    ],
)
def test_odd_names_are_fine(name):
    assert plan(name).files[0].name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../../b",
        "./a",
        "nul\0",
        "x" * 256,
        "🧪" * 64,
        "\ud800",
        "/".join("a" * 21),
    ],
)
def test_unsafe_names_are_refused(name):
    with pytest.raises(InvalidRequest, match="cannot be the name"):
        plan(name)


def test_a_name_cannot_come_twice():
    with pytest.raises(InvalidRequest, match="two files"):
        plan("a", "a")


def test_a_name_cannot_be_file_and_folder():
    with pytest.raises(InvalidRequest, match="both a file and a folder"):
        plan("a/b/c", "a/b")


def test_programs_give_way_to_files():
    made = plan(
        "main.py", "main_2.py/x", steps=[("python", "1"), ("bash", ":"), ("py", "2")]
    )
    assert made.step_names == ("main_3.py", "main.sh", "main_4.py")
    assert [file.name for file in made.files[2:]] == list(made.step_names)


def test_an_unknown_language_is_refused():
    with pytest.raises(InvalidRequest, match="no language"):
        plan(steps=[("cobol", "1")])


def test_lone_surrogates_in_code_do_not_break_it():
    assert plan(steps=[("python", "print('\ud800')")]).files[0].data


def test_more_than_the_work_folder_holds_is_refused():
    small = Limits().lowered(work_mib=1)
    assert plan("a", limits=small, size=MIB - 4096).files
    with pytest.raises(InvalidRequest, match="work folder"):
        plan("a", limits=small, size=MIB - 4095)
    with pytest.raises(InvalidRequest, match="work folder"):
        plan(*(f"f{i}" for i in range(256)), limits=small)


def test_more_stdin_than_16_mib_is_refused():
    assert plan(stdin=b"x" * 16 * MIB).files
    with pytest.raises(InvalidRequest, match="stdin"):
        plan(stdin=b"x" * (16 * MIB + 1))


@given(st.text(max_size=60) | st.text(alphabet="./\0a\ud800", max_size=20))
def test_output_names_are_relative_without_tricks_and_encodable(name):
    safe = safe_output_name(name)
    parts = safe.split("/")
    assert all(part not in ("", ".", "..") for part in parts)
    assert "\0" not in safe
    assert safe.encode("utf-8")


def test_a_good_output_name_stays():
    assert safe_output_name("a/ü b.txt") == "a/ü b.txt"
    assert safe_output_name("../../") == "unnamed"


# --- files out -----------------------------------------------------------------------------


def receive(receiver, name, *chunks):
    receiver.begin(name)
    for chunk in chunks:
        receiver.data(chunk)
    receiver.end()


def test_files_come_out_whole_and_sorted():
    receiver = FileReceiver(Limits())
    receive(receiver, "b", b"1" * 100_000, b"2")
    receive(receiver, "a")
    receiver.begin("unfinished")
    receiver.data(b"half")
    first, second = receiver.complete_files()
    assert (first.name, first.size, first.content.read()) == ("a", 0, b"")
    assert (second.name, second.size) == ("b", 100_001)
    assert second.content.read() == b"1" * 100_000 + b"2"


def test_equal_names_are_told_apart():
    receiver = FileReceiver(Limits())
    for _ in range(3):
        receive(receiver, "�.txt")
    names = [file.name for file in receiver.complete_files()]
    assert names == ["�.txt", "�_2.txt", "�_3.txt"]


@pytest.mark.parametrize(
    "misuse",
    [
        lambda r: r.data(b"x"),
        lambda r: r.end(),
        lambda r: (r.begin("a"), r.begin("b")),
        lambda r: [receive(r, f"f{i}") for i in range(3)],
        lambda r: receive(r, "a", b"x" * (MIB + 1)),
        lambda r: (receive(r, "a", b"x" * MIB), receive(r, "b", b"x")),
    ],
)
def test_whoever_passes_the_bounds_is_not_our_guest(misuse):
    limits = Limits().lowered(files=2, file_mib=1, work_mib=1)
    with pytest.raises(ProtocolError):
        misuse(FileReceiver(limits))


def test_ten_thousand_files_are_quick(monkeypatch):
    receiver = FileReceiver(Limits(files=10_000))
    for number in range(10_000):
        receive(receiver, f"f{number}")
    assert len(receiver.complete_files()) == 10_000


def test_a_file_without_room_on_this_host_is_lost_and_said(monkeypatch):
    class FullDisk(tempfile.SpooledTemporaryFile):
        def write(self, data):
            raise OSError(28, "No space left on device")

    receiver = FileReceiver(Limits())
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", FullDisk)
    receive(receiver, "big", b"x", b"y")
    monkeypatch.undo()
    receive(receiver, "small", b"x")
    assert [file.name for file in receiver.complete_files()] == ["small"]
    assert receiver.lost_files() == (
        SkippedFile("big", "there was no room for it on the server"),
    )
