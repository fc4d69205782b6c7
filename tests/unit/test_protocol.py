"""Frames from a sandbox: cut anyhow, garbled anyhow."""

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.errors import ProtocolError
from sandbox_core.protocol import (
    FrameReader,
    bootstrap_argv,
    encode_frame,
    encode_header,
    encode_program,
    joined_frames,
    parse_header,
)

FRAMES = st.lists(
    st.tuples(st.sampled_from("hsxvfqk!zoed"), st.binary(max_size=600)), max_size=8
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read_all(reader, pieces):
    """All frames, with neighbouring pieces of data of one kind as one."""
    return joined(frame for piece in pieces for frame in reader.feed(piece))


def joined(frames):
    result = []
    for kind, payload in frames:
        if kind in "oed" and not payload:
            continue
        if kind in "oed" and result and result[-1][0] == kind:
            payload = result.pop()[1] + payload
        result.append((kind, payload))
    return result


@given(FRAMES, st.data())
def test_frames_do_not_depend_on_how_they_were_cut(frames, data):
    stream = b"".join(encode_frame(kind, payload) for kind, payload in frames)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    borders = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(borders)]
    assert read_all(FrameReader(), pieces) == joined(frames)


@given(st.binary(max_size=3000))
def test_garbage_is_frames_or_a_protocol_error(garbage):
    with suppress(ProtocolError):
        for kind, payload in FrameReader().feed(garbage):
            assert kind in "hsxvfqk!zoed"
            assert len(payload) <= 1 << 19


@pytest.mark.parametrize("kind", "hsxfqk!zoedv")
def test_an_oversized_frame_is_refused_at_its_header(kind):
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(kind.encode() + b"\xff\xff\xff\xff"))


@pytest.mark.parametrize(
    ("kind", "largest"),
    [("o", 1 << 18), ("d", 1 << 18), ("v", 1 << 19), ("h", 1 << 16)],
)
def test_the_largest_frame_passes_and_one_byte_more_does_not(kind, largest):
    reader = FrameReader()
    assert list(reader.feed(encode_frame(kind, b"x" * largest))) == [
        (kind, b"x" * largest)
    ]
    with pytest.raises(ProtocolError):
        list(FrameReader().feed(encode_frame(kind, b"x" * (largest + 1))[:5]))


def test_of_data_nothing_is_held():
    reader = FrameReader()
    frame = encode_frame("o", b"x" * (1 << 18))
    for _ in range(50):
        for start in range(0, len(frame), 40_000):
            list(reader.feed(frame[start : start + 40_000]))
            assert len(reader._received) < 5


def test_of_a_header_nothing_is_held_beyond_it():
    reader = FrameReader()
    value = encode_frame("v", b"x" * (1 << 19))
    for start in range(0, len(value), 40_000):
        list(reader.feed(value[start : start + 40_000]))
        assert len(reader._received) <= len(value)
    assert not reader._received


@given(st.binary(max_size=300))
def test_a_header_of_any_bytes_is_parsed_or_refused(payload):
    with suppress(ProtocolError):
        parse_header(payload, {"text": str})


@given(st.dictionaries(st.sampled_from(["step", "text", "flag"]), JSON_VALUES))
def test_a_header_of_any_values_has_the_stated_types_or_is_refused(values):
    types = {"step": int, "text": str, "flag": bool}
    try:
        parsed = parse_header(json.dumps(values).encode(), types)
    except ProtocolError:
        return
    assert type(parsed["step"]) is int
    assert type(parsed["text"]) is str
    assert type(parsed["flag"]) is bool


@pytest.mark.parametrize(
    "payload",
    [
        b"[]",
        b"1",
        b'{"step": true}',
        b'{"step": "1"}',
        b'{"step": 1.0}',
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"step": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_wrong_header_is_refused(payload):
    with pytest.raises(ProtocolError):
        parse_header(payload, {"step": int})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_must_be_finite(number):
    with pytest.raises(ProtocolError):
        parse_header(b'{"seconds": %s}' % number.encode(), {"seconds": (int, float)})


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    )
)
def test_the_guest_reads_a_header_as_it_was_meant(values):
    from sandbox_core.guest_wire import literal, take_frame

    kind, payload = take_frame(bytearray(encode_header("G", values)))
    assert (kind, literal(payload)) == (b"G", values)


@given(
    st.dictionaries(
        st.text(alphabet="abc_", max_size=8),
        st.none()
        | st.booleans()
        | st.integers(-(10**15), 10**15)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=30)
        | st.lists(st.integers(0, 9), max_size=3),
    )
)
def test_the_host_reads_what_the_guest_writes(values):
    from sandbox_core.guest_wire import json_text

    assert json.loads(json_text(values)) == values


@given(st.lists(st.integers(0, 150_000), max_size=12))
def test_joined_frames_are_the_same_bytes_in_fewer_pieces(sizes):
    frames = [encode_frame("D", bytes([n]) * size) for n, size in enumerate(sizes)]
    pieces = list(joined_frames(frames))
    assert b"".join(pieces) == b"".join(frames)
    assert all(pieces)
    assert all(len(a) + len(b) > 1 << 16 for a, b in pairwise(pieces))


def test_the_bootstrap_reads_exactly_the_program():
    program = encode_program("print('é')")
    assert program[:8].isdigit()
    assert int(program[:8]) == len(program) - 8
    assert bootstrap_argv("python3")[:4] == ["python3", "-I", "-S", "-c"]
