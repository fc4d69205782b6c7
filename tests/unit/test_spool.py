"""The whole output of a run, kept on disk within a cap."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_core.spool import OutputSpool


@given(st.lists(st.text(max_size=20), max_size=20), st.integers(0, 60))
def test_keeps_what_fits_and_says_what_does_not(texts: list[str], cap: int) -> None:
    spool = OutputSpool(cap)
    for text in texts:
        spool.add(text)
    whole = "".join(texts).encode("utf-8", "replace").decode()
    file = spool.finish()
    if not whole:
        assert file is None
        return
    assert file is not None
    kept = file.content.read()
    assert len(kept) == file.size
    if len(whole.encode()) <= cap:
        assert kept.decode() == whole
    else:
        start, note, end = kept.decode().partition("\n[… the rest")
        assert note
        assert end
        assert whole.startswith(start)
        assert len(start.encode()) <= cap


def test_holds_large_texts_on_disk() -> None:
    spool = OutputSpool(1 << 20)
    for _ in range(8):
        spool.add("x" * (1 << 17))
    file = spool.finish()
    assert file is not None
    assert os.fstat(file.content.fileno()).st_size == 1 << 20
    assert os.fstat(file.content.fileno()).st_nlink == 0


def test_a_full_disk_loses_the_file_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class FullDisk:
        def write(self, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", lambda _: FullDisk())
    spool = OutputSpool(10)
    spool.add("text")
    spool.add("more")
    assert spool.finish() is None
