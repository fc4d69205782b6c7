"""Cleaning, collapsing and cutting of program output."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.models import KeptText
from sandbox_core.streams import HeadTail, TextCleaner, Transcript, clean_text, shorten

# Pieces that meet each other at every chunk border: text of several widths, controls,
# whole and broken escape sequences, bytes that are no UTF-8.
PIECES = st.sampled_from(
    [
        b"abc",
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"\x00",
        b"\x08",
        b"\x07",
        b"\x1b",
        b"\x1b[31m",
        b"\x1b[",
        b"38;5;1",
        b"m",
        b"\x1b]0;title",
        b"\x1b\\",
        b"\\",
        b"]",
        b"\x1bPq",
        b"\x1b(B",
        b"\xc2\x9b",
        b"\xc2\x9d",
        b"\xc2\x9c",
        "é测🧪".encode(),
        b"\xf0\x9f",
        b"\xff",
        b"\x80",
    ]
)
OUTPUT = st.one_of(st.lists(PIECES).map(b"".join), st.binary())
CLEANED = st.text(alphabet=st.sampled_from("ab é测🧪\n\r"), max_size=60)


def clean(*chunks: bytes) -> str:
    cleaner = TextCleaner()
    return "".join([*map(cleaner.feed, chunks), cleaner.finish()])


def chunks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    borders = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(borders)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"plain\n", "plain\n"),
        (b"a\tb\x00c\x07d\x7fe\x0bf", "a\tbcdef"),
        (b"ab\x08c", "abc"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b[?25l\x1b[2K\x1b[10;20Hat", "at"),
        (b"\x1b]0;title\x07shown", "shown"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\xc2\x9b31mred", "red"),
        (b"\xc2\x9d0;title\xc2\x9cshown", "shown"),
        (b"\x1bPpayload\x1b\\\x1b(B\x1b7\x1bcend", "end"),
        (b"\x1b\x1b[mx\x1b", "x"),
        (b"\x1b[31\nnext", "\nnext"),
        (b"\x1b]0;lost its end\nnext", "0;lost its end\nnext"),
        (b"cut \x1b[3", "cut "),
        (b"cut \x1b]0;ti", "cut 0;ti"),
        (b"a\r\nb\r\r\nc\rd\r\r\re", "a\nb\nc\rd\re"),
        (b"a\r\x1b[K\nb", "a\nb"),
        (b"a\r", "a\r"),
        ("h\xe9llo 你好 🧪".encode(), "h\xe9llo 你好 🧪"),
        (b"\xff\xf0\x9f END", "�� END"),
    ],
)
def test_cleaned(raw: bytes, expected: str) -> None:
    assert clean(raw) == expected
    assert clean(*(raw[i : i + 1] for i in range(len(raw)))) == expected


def test_r08_all_bytes() -> None:
    text = clean(bytes(range(256)) + b"END")
    assert text.endswith("END")
    assert "\x00" not in text
    assert "�" in text
    assert "ABC" in text


def test_a_stray_introducer_swallows_no_more_than_its_bound() -> None:
    far = b"\x1b]" + b"x" * 5000 + b"\x07end"
    assert clean(far) == "x" * 5000 + "end"
    near = b"\x1b]" + b"x" * 4000 + b"\x07end"
    assert clean(near) == "end"


def test_what_is_certain_is_given_at_once() -> None:
    cleaner = TextCleaner()
    assert cleaner.feed(b"10%") == "10%"
    assert cleaner.feed(b"\r50%\x1b[3") == "\r50%"
    assert cleaner.feed(b"1m\xe6\xb5") == ""
    assert cleaner.feed(b"\x8b\r") == "测"
    assert cleaner.feed(b"\n") == "\n"


@given(OUTPUT, st.lists(st.integers(0, 1 << 16), max_size=12))
def test_the_cuts_do_not_matter(raw: bytes, cuts: list[int]) -> None:
    assert clean(*chunks_of(raw, cuts)) == clean(raw)


@given(st.integers(4080, 4110), st.sampled_from([b"\x07", b"\x1b\\", b"\n", b"\x1b["]))
def test_the_cuts_do_not_matter_near_the_bound(size: int, end: bytes) -> None:
    raw = b"\x1b]" + b"x" * size + end + b"z"
    for cut in (1, 2, 4090, 4097, 4098, 4099, len(raw) - 1, len(raw) - 2):
        assert clean(raw[:cut], raw[cut:]) == clean(raw)


@given(OUTPUT)
def test_only_harmless_characters_come_out(raw: bytes) -> None:
    text = clean(raw)
    assert not [
        c for c in text if (c < " " or "\x7f" <= c < "\xa0") and c not in "\n\t\r"
    ]
    assert "\r\n" not in text
    assert "\r\r" not in text
    text.encode("utf-8")


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"])))
def test_text_without_controls_is_untouched(text: str) -> None:
    assert clean(text.encode()) == text
    assert clean_text(text) == text


def test_clean_text_survives_lone_surrogates() -> None:
    assert clean_text("a\udc80b\x00") == "a?b"


@given(st.lists(st.text(max_size=30)), st.integers(1, 40))
def test_head_and_tail(texts: list[str], cap: int) -> None:
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    whole = "".join(texts)
    keeper = HeadTail(cap)
    for text in texts:
        keeper.add(text)
    kept = keeper.kept()
    head, tail = kept.head.encode(), kept.tail.encode()
    assert whole.startswith(kept.head)
    assert whole.endswith(kept.tail)
    assert len(head) <= cap
    assert len(tail) <= cap
    assert len(head) + len(tail) + kept.omitted == len(whole.encode())
    if len(whole.encode()) <= cap:
        assert str(kept) == whole
    if kept.omitted:
        assert len(head) > cap - 4
        assert len(tail) > cap - 4


def one(text: str, cap: int = 1000, stream: str = "stdout") -> str:
    transcript = Transcript(cap)
    transcript.add(stream, text)
    return str(transcript.finish()[2])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10%\r50%\r100%\n", "100%\n"),
        ("a\n10%\r100%\nb", "a\n100%\nb"),
        ("abc\r", "abc"),
        ("abc\r\n", "abc\n"),
        ("\rabc", "abc"),
        ("abc\rx", "x"),
        ("1\r2\n3\r4\r", "2\n4"),
    ],
)
def test_redraws_collapse(text: str, expected: str) -> None:
    assert one(text) == expected
    transcript = Transcript(1000)
    for character in text:
        transcript.add("stdout", character)
    assert str(transcript.finish()[0]) == expected


def test_the_order_of_the_streams_is_kept() -> None:
    transcript = Transcript(1000)
    transcript.add("stdout", "Name? ")
    transcript.add("stderr", "Traceback\n")
    transcript.add("stdout", "after")
    stdout, stderr, output = transcript.finish()
    assert (str(stdout), str(stderr)) == ("Name? after", "Traceback\n")
    assert str(output) == "Name? \nTraceback\nafter"


def test_a_line_end_that_comes_late_is_not_seen_twice() -> None:
    transcript = Transcript(1000)
    transcript.add("stdout", "out")
    transcript.add("stderr", "err\n")
    transcript.add("stdout", "\n")
    transcript.add("stdout", "\nend\n")
    stdout, _, output = transcript.finish()
    assert str(stdout) == "out\n\nend\n"
    assert str(output) == "out\nerr\n\nend\n"


def test_a_redraw_between_lines_of_the_other_stream() -> None:
    transcript = Transcript(1000)
    for step in ("\r 0%", "\r 50%", "\r100%"):
        transcript.add("stderr", step)
        transcript.add("stdout", f"at {step.strip()}\n")
    stdout, stderr, output = transcript.finish()
    assert str(stderr) == "100%"
    assert str(stdout) == "at 0%\nat 50%\nat 100%\n"
    assert str(output) == " 0%\nat 0%\n 50%\nat 50%\n100%\nat 100%\n"


@given(CLEANED, st.lists(st.integers(0, 100), max_size=8))
def test_the_chunks_of_a_transcript_do_not_matter(text: str, cuts: list[int]) -> None:
    transcript = Transcript(1000)
    borders = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in pairwise(borders):
        transcript.add("stderr", text[start:end])
    _, stderr, output = transcript.finish()
    assert stderr == output
    assert str(output) == one(text)
    assert "\r" not in str(output)


@given(st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), CLEANED)))
def test_each_stream_is_as_if_alone(writes: list[tuple[str, str]]) -> None:
    transcript = Transcript(10_000)
    for stream, text in writes:
        transcript.add(stream, text)
    stdout, stderr, output = transcript.finish()
    assert str(stdout) == one(
        "".join(text for stream, text in writes if stream == "stdout")
    )
    assert str(stderr) == one(
        "".join(text for stream, text in writes if stream == "stderr")
    )
    assert "\r" not in str(output)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("stdout"), st.text("ab\n")),
            st.tuples(st.just("stderr"), st.text("yz\n")),
        )
    )
)
def test_without_redraws_the_output_is_what_was_written_in_whole_lines(
    writes: list[tuple[str, str]],
) -> None:
    transcript = Transcript(10_000)
    for stream, text in writes:
        transcript.add(stream, text)
    output = str(transcript.finish()[2])
    written = "".join(text for _, text in writes)
    assert output.replace("\n", "") == written.replace("\n", "")
    for line in output.split("\n"):
        assert set(line) <= set("ab") or set(line) <= set("yz")


def test_an_open_line_has_a_bound() -> None:
    transcript = Transcript(1 << 20)
    for _ in range(100):
        transcript.add("stdout", "x" * 1000)
    transcript.add("stdout", "\rend")
    stdout = str(transcript.finish()[0])
    assert stdout.startswith("x" * 65_000)
    assert stdout.endswith("end")
    assert len(stdout) < 70_000


KEPT = st.one_of(
    st.builds(KeptText, st.text("ab é🧪\n")),
    st.builds(KeptText, st.text("ab é🧪\n"), st.text("ab é🧪\n"), st.integers(1, 99)),
)


@given(KEPT, st.integers(-5, 80))
def test_shortened(text: KeptText, budget: int) -> None:
    size = len(text.head.encode()) + len(text.tail.encode())
    short = shorten(text, budget)
    kept = len(short.head.encode()) + len(short.tail.encode())
    assert kept <= max(0, budget) or short == text
    assert short.omitted - text.omitted == size - kept
    whole_head = text.head if text.omitted else text.head + text.tail
    whole_tail = text.tail if text.omitted else text.head + text.tail
    assert whole_head.startswith(short.head)
    assert whole_tail.endswith(short.tail)
    if size <= budget:
        assert short == text


def test_shortened_at_line_ends() -> None:
    lines = "".join(f"line {number:04}\n" for number in range(1000))
    short = shorten(KeptText(lines), 105)
    assert short.head == "".join(f"line {number:04}\n" for number in range(5))
    assert short.tail == "".join(f"line {number:04}\n" for number in range(995, 1000))
    assert short.omitted == 9900


def test_shortened_uses_the_room_that_the_other_end_leaves() -> None:
    short = shorten(KeptText("short\n", "x" * 500, 7), 100)
    assert short == KeptText("short\n", "x" * 94, 7 + 406)


HOSTILE = {
    "lines": b"x" * 99 + b"\n",
    "short lines": b"y\n",
    "one line": b"x",
    "redraws": b"\r" + b"x" * 1000,
    "returns": b"\r",
    "lone strings": b"\x1b]",
    "long strings": b"\x1b]" + b"x" * 5000,
    "colours": b"\x1b[31mx\x1b[0m\n",
    "newlines and returns": b"\r\n",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_cost_is_linear(name: str) -> None:
    chunk = (HOSTILE[name] * (1 + (1 << 16) // len(HOSTILE[name])))[: 1 << 16]
    cleaner, transcript = TextCleaner(), Transcript(256 << 10)
    start = time.monotonic()
    for _ in range(64):
        transcript.add("stdout", cleaner.feed(chunk))
    transcript.add("stdout", cleaner.finish())
    transcript.finish()
    assert time.monotonic() - start < 20
