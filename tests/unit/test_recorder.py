"""What a guest tells, in the right order and in any other."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_core.errors import ProtocolError
from sandbox_core.event_feed import EventFeed
from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, SkippedFile, Step
from sandbox_core.outcome import Evidence, Outcome
from sandbox_core.protocol import FrameReader
from sandbox_core.recorder import Recorder
from tests.fake_engine import FLAGS, done, header, hello, killed_step, started, step_end

FACTS = {"engine": "fake"}


def recorder_of(*frames, steps=1, limits=None, language="python"):
    program = Step(language, "1")
    recorder = Recorder(
        RunRequest(steps=(program,) * steps, limits=limits or Limits()),
        EventFeed(None),
    )
    for frame in frames:
        take(recorder, frame)
    return recorder


def take(recorder, data):
    for kind, payload in FrameReader().feed(data):
        recorder.take(kind, payload)


def out(data, kind="o"):
    return kind.encode() + len(data).to_bytes(4, "big") + data


def result_of(*frames, steps=1, limits=None, host=None):
    return recorder_of(*frames, steps=steps, limits=limits).result(
        host or Evidence(), FACTS
    )


def test_a_whole_run():
    result = result_of(
        hello(),
        started(),
        out(b"one\n"),
        out(b"two\n", "e"),
        step_end(),
        header("v", text="42"),
        header("p", name="001-figure.png"),
        out(b"png", "d"),
        header("q"),
        header("f", name="a.txt"),
        out(b"xyz", "d"),
        header("q"),
        header("k", name="pipe", reason="a pipe, not a file"),
        done(seconds=1.5),
    )
    assert result.outcome is Outcome.OK
    assert (str(result.stdout), str(result.stderr)) == ("one\n", "two\n")
    assert str(result.output) == "one\ntwo\n"
    assert result.value == "42"
    assert [(file.name, file.content.read()) for file in result.files] == [
        ("a.txt", b"xyz")
    ]
    assert [(entry.name, entry.content.read()) for entry in result.displays] == [
        ("figure-1.png", b"png")
    ]
    assert result.skipped == (SkippedFile("pipe", "a pipe, not a file"),)
    assert result.seconds == 1.5
    assert result.evidence == {"engine": "fake", "kernel": "Linux version 4.4.0"}


def test_time_of_a_guest_that_falls_silent(monkeypatch):
    """It is taken here, and a compiler's is not the program's."""
    clock = iter((100.0, 107.0, 107.5))
    monkeypatch.setattr("sandbox_core.recorder.time.monotonic", lambda: next(clock))
    recorder = recorder_of(hello(), header("c", step=0), language="c")
    take(recorder, started())
    result = recorder.result(Evidence(timed_out=True), FACTS)
    assert result.seconds == 0.5


def test_milestones():
    recorder = recorder_of(hello(), steps=2)
    assert (recorder.started, recorder.program_over, recorder.done) == (False,) * 3
    take(recorder, started(0) + step_end(0))
    assert (recorder.started, recorder.program_over) == (True, False)
    take(recorder, started(1) + step_end(1))
    assert (recorder.program_over, recorder.done) == (True, False)
    take(recorder, done())
    assert recorder.done


def test_a_program_follows_its_compiler():
    recorder = recorder_of(
        hello(), header("c", step=0), out(b"warning\n", "e"), language="c"
    )
    assert recorder.started
    assert not recorder.program_over
    frames = (started(), out(b"42\n"), step_end(), done())
    for frame in frames:
        take(recorder, frame)
    result = recorder.result(Evidence(), FACTS)
    assert (result.outcome, str(result.stdout)) == (Outcome.OK, "42\n")


def test_a_compile_error_is_no_failure_of_the_program():
    recorder = recorder_of(
        hello(),
        header("c", step=0),
        out(
            b"/mnt/data/main.c:12:5: error: expected ;\n/mnt/data/main.c:3: note\n", "e"
        ),
        step_end(exit_code=1),
        done(),
        steps=2,
        language="c",
    )
    result = recorder.result(Evidence(), FACTS)
    assert (result.outcome, result.failed_step) == (Outcome.COMPILE_ERROR, 0)
    assert (
        result.message == "The program does not compile (line 12), so it was not run."
    )


def test_a_language_that_the_image_does_not_have_is_named():
    recorder = recorder_of(hello(), header("n", step=0), done(), steps=2, language="go")
    result = recorder.result(Evidence(), FACTS)
    assert (result.outcome, result.exit_code) == (Outcome.FAILED, 127)
    assert (
        "there is no Go in this sandbox. The image run-code-full has it"
        in result.message
    )


def test_the_first_failing_step_ends_the_run():
    recorder = recorder_of(hello(), started(0), step_end(0, exit_code=3), steps=3)
    assert recorder.program_over
    take(recorder, done())
    result = recorder.result(Evidence(), FACTS)
    assert (result.outcome, result.exit_code, result.failed_step) == (
        Outcome.FAILED,
        3,
        0,
    )


@pytest.mark.parametrize(
    "frames",
    [
        [started()],
        [done()],
        [hello(), hello()],
        [hello(), out(b"before the start")],
        [hello(), started(), step_end(), out(b"after the end")],
        [hello(), started(1)],
        [hello(), header("c", step=1)],
        [hello(), header("c", step=0), header("c", step=0)],
        [hello(), header("c", step=0), header("n", step=0)],
        [hello(), header("c", step=0), started(1)],
        [hello(), header("n", step=0), started(1)],
        [hello(), started(-1)],
        [hello(), started(), started()],
        [hello(), started(), step_end(), started()],
        [hello(), step_end()],
        [hello(), started(), step_end(1)],
        [hello(), started(), header("x", step=0, exit_code=None, signal=None)],
        [hello(), started(), header("x", step=0, exit_code=1, signal=9)],
        [hello(), started(), step_end(exit_code=256)],
        [hello(), started(), step_end(exit_code=-1)],
        [hello(), started(), killed_step(signal=0)],
        [hello(), started(), killed_step(signal=10**9)],
        [hello(), started(), done()],
        [hello(), started(), header("f", name="early")],
        [hello(), started(), out(b"early", "d")],
        [hello(), out(b"no file", "d")],
        [hello(), header("q")],
        [hello(), header("f", name=1)],
        [hello(), header("f", name="a"), header("f", name="b")],
        [hello(), header("f", name="a"), header("p", name="001-figure.png")],
        [hello(), header("p", name="a"), header("f", name="b")],
        [hello(), *[header("p", name="a"), header("q")] * 41],
        [hello(), started(), step_end(), done(seconds=-1)],
        [hello(), started(), step_end(), done(seconds=10**400)],
        [hello(), started(), step_end(), done(timed_out="yes")],
        [hello(), header("z", seconds=1)],
        [hello(), done()],
        [hello(), started(), step_end(), done(), done()],
        [hello(), header("!", reason="no space")],
        [header("h", gvisor="yes", kernel="")],
    ],
)
def test_frames_out_of_order_or_out_of_range_are_refused(frames):
    with pytest.raises(ProtocolError):
        recorder_of(*frames)


def test_the_guests_own_reason_goes_to_the_log_only():
    with pytest.raises(ProtocolError) as caught:
        recorder_of(
            hello(), header("!", reason="The files could not be placed: \x1b[2J")
        )
    assert "placed" in caught.value.detail
    assert "\x1b" not in caught.value.detail
    assert "placed" not in str(caught.value)


def test_output_above_its_cap_is_a_breach():
    limits = Limits().lowered(output_mib=1)
    recorder = recorder_of(hello(), started(), limits=limits)
    for _ in range(4):
        take(recorder, out(b"x" * (1 << 18)))
    with pytest.raises(ProtocolError):
        take(recorder, out(b"x", "e"))


@pytest.mark.parametrize(
    "payload", [b"", b"garbage", b'{"text": 1}', b'{"text": "cut', b"[" * 50_000]
)
def test_a_spoilt_value_is_no_value(payload):
    frame = b"v" + len(payload).to_bytes(4, "big") + payload
    result = result_of(hello(), started(), step_end(), frame, done())
    assert (result.outcome, result.value) == (Outcome.OK, None)


def test_texts_of_the_sandbox_are_cleaned():
    dirty = "\x1b[31mred\x00\ud800"
    result = result_of(
        hello(kernel=dirty),
        started(),
        step_end(),
        header("v", text=dirty),
        header("k", name="a\ud800b", reason=dirty),
        header("k", name="", reason="more"),
        header("f", name="../../x\ud800"),
        header("q"),
        done(),
    )
    assert result.value == "red?"
    assert result.evidence["kernel"] == "red?"
    assert result.skipped == (SkippedFile("a?b", "red?"), SkippedFile("", "more"))
    assert [file.name for file in result.files] == ["x?"]


def test_skipped_names_are_bounded_in_number():
    frames = [header("k", name=f"f{i}", reason="r") for i in range(1000)]
    assert (
        len(result_of(hello(), started(), step_end(), *frames, done()).skipped) == 200
    )


def test_an_unfinished_run_keeps_what_was_printed():
    result = result_of(
        hello(), started(), out(b"half a line"), host=Evidence(timed_out=True)
    )
    assert result.outcome is Outcome.TIMEOUT
    assert str(result.stdout) == "half a line"


@pytest.mark.parametrize(
    ("end", "host", "outcome"),
    [
        (killed_step(), Evidence(oom=True), Outcome.MEMORY_LIMIT),
        (step_end(exit_code=1), Evidence(oom=True), Outcome.MEMORY_LIMIT),
        (step_end(exit_code=1), Evidence(), Outcome.FAILED),
        (step_end(exit_code=0), Evidence(oom=True), Outcome.OK),
        (step_end(exit_code=0), Evidence(cancelled=True), Outcome.CANCELLED),
        (step_end(exit_code=0), Evidence(error="broken"), Outcome.SANDBOX_ERROR),
    ],
)
def test_the_hosts_evidence_counts(end, host, outcome):
    recorder = recorder_of(hello(), started(), end, done())
    assert recorder.ended_suspiciously == (end != step_end(exit_code=0))
    assert recorder.result(host, FACTS).outcome is outcome


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"processes_full": True}, "128 processes"),
        ({"disk_full": True}, "work folder holds"),
    ],
)
def test_a_wall_that_was_survived_is_a_note(flags, words):
    result = result_of(hello(), started(), step_end(), done(**flags))
    assert result.outcome is Outcome.OK
    assert words in result.notes[0]


HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "step": st.integers(-1, 3),
        "exit_code": st.none() | st.integers(-1, 300),
        "signal": st.none() | st.integers(-1, 100),
        "name": st.text(max_size=10),
        "reason": st.text(max_size=10),
        "text": st.text(max_size=10),
        "gvisor": st.booleans(),
        "kernel": st.text(max_size=10),
        "seconds": st.integers() | st.floats(),
        **dict.fromkeys(FLAGS, st.booleans()),
    },
)
FRAMES = st.one_of(
    st.tuples(
        st.sampled_from("hsxvfqk!z"), HEADERS.map(lambda h: json.dumps(h).encode())
    ),
    st.tuples(st.sampled_from("hsxvfqk!zoed"), st.binary(max_size=30)),
    st.sampled_from(
        [hello(), started(0), started(1), step_end(0), step_end(1), done()]
    ).map(lambda frame: next(FrameReader().feed(frame))),
)


@settings(max_examples=400)
@given(st.lists(FRAMES, max_size=12))
def test_any_frames_give_a_result_or_a_protocol_error(frames):
    recorder = recorder_of(hello(), steps=2)
    error = ""
    try:
        for kind, payload in frames:
            recorder.take(kind, payload)
    except ProtocolError as breach:
        error = str(breach)
    result = recorder.result(Evidence(error=error), FACTS)
    if error:
        assert result.outcome is Outcome.SANDBOX_ERROR
    elif not recorder.done:
        assert result.outcome not in (Outcome.OK, Outcome.FAILED)
