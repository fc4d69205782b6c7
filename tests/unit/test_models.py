"""What goes into a run and comes out of it, also as plain values."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.errors import InvalidRequest
from sandbox_core.limits import Limits
from sandbox_core.models import (
    InputFile,
    KeptText,
    OutputFile,
    RunRequest,
    RunResult,
    SkippedFile,
    Step,
    new_run_id,
)
from sandbox_core.outcome import Outcome

REQUESTS = st.builds(
    RunRequest,
    steps=st.lists(st.builds(Step, st.text(), st.text()), min_size=1).map(tuple),
    files=st.lists(st.builds(InputFile, st.text(), st.binary())).map(tuple),
    stdin=st.binary(),
    limits=st.builds(Limits, seconds=st.integers(1, 60), files=st.integers(0, 9)),
)
KEPT = st.builds(KeptText, st.text(), st.text(), st.integers(0, 99))
RESULTS = st.builds(
    RunResult,
    run_id=st.text(),
    outcome=st.sampled_from(Outcome),
    message=st.text(),
    exit_code=st.none() | st.integers(0, 255),
    stdout=KEPT,
    stderr=KEPT,
    output=KEPT,
    value=st.none() | st.text(),
    skipped=st.lists(st.builds(SkippedFile, st.text(), st.text())).map(tuple),
    notes=st.lists(st.text()).map(tuple),
    seconds=st.floats(0, 99),
    failed_step=st.none() | st.integers(0, 9),
    evidence=st.dictionaries(st.text(), st.text()),
)


@given(REQUESTS)
def test_a_request_survives_as_plain_values(request_: RunRequest) -> None:
    plain = request_.to_plain()
    json.dumps(plain, default=bytes.hex)
    assert RunRequest.from_plain(plain) == request_


@given(RESULTS)
def test_a_result_survives_as_plain_values(result: RunResult) -> None:
    plain = result.to_plain()
    json.dumps(plain)
    assert type(plain["outcome"]) is str
    assert RunResult.from_plain(plain) == result


def test_open_files_cross_as_they_are() -> None:
    content = io.BytesIO(b"1234")
    result = RunResult("r", Outcome.OK, files=(OutputFile("a", 4, content),))
    (file,) = RunResult.from_plain(result.to_plain()).files
    assert file.content is content
    assert (file.name, file.size) == ("a", 4)


def test_nothing_to_run_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no code"):
        RunRequest(steps=())


def test_run_ids() -> None:
    ids = {new_run_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(len(run_id) == 16 and int(run_id, 16) >= 0 for run_id in ids)
    one, other = (RunRequest(steps=(Step("python", ""),)) for _ in range(2))
    assert one.run_id != other.run_id


def test_kept_text() -> None:
    assert str(KeptText("a", "b")) == "ab"
    assert str(KeptText("a", "b", 7)) == "a\n[… 7 bytes left out …]\nb"


@pytest.mark.parametrize(
    ("exit_code", "signal", "expected"),
    [(0, None, 0), (3, None, 3), (None, 11, 139), (None, None, None)],
)
def test_shell_exit_code(
    exit_code: int | None, signal: int | None, expected: int | None
) -> None:
    result = RunResult("r", Outcome.FAILED, exit_code=exit_code, signal=signal)
    assert result.shell_exit_code == expected


def test_open_files_are_read_in_pieces_and_more_than_once() -> None:
    file = InputFile("a", content=io.BytesIO(b"12345"))
    assert file.size == 5
    assert [bytes(chunk) for chunk in file.chunks(2)] == [b"12", b"34", b"5"]
    assert b"".join(file.chunks(9)) == b"12345"
    assert b"".join(InputFile("a", b"12345").chunks(2)) == b"12345"


def test_open_files_cross_as_plain_values() -> None:
    content = io.BytesIO(b"12345")
    request = RunRequest((Step("python", ""),), (InputFile("a", content=content),))
    assert RunRequest.from_plain(request.to_plain()).files[0].content is content
    full = OutputFile("full-output.txt", 5, content)
    result = RunResult("1", Outcome.OK, full_output=full)
    assert RunResult.from_plain(result.to_plain()) == result


def test_an_unreadable_file_is_named() -> None:
    content = io.BytesIO(b"12345")
    content.close()
    with pytest.raises(InvalidRequest, match="“a” could not be read"):
        list(InputFile("a", content=content).chunks(2))
