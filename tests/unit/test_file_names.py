"""Names of files: in the work folder, as a download, and shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.file_names import download_name, short_name, unused_name, work_name
from sandbox_core.archive import is_input_name

ANY_NAME = st.text(st.characters(), max_size=300)


@given(ANY_NAME)
def test_any_name_becomes_one_for_the_work_folder(name: str) -> None:
    assert is_input_name(work_name(name))


@pytest.mark.parametrize("name", ["a b.txt", "naïve-测试.txt", "-rf", ".env", "a\nb"])
def test_a_name_that_a_folder_takes_stays(name: str) -> None:
    assert work_name(name) == name
    assert work_name(f"C:/x/{name}") == name


def test_a_long_name_keeps_its_ending() -> None:
    name = work_name("é" * 200 + ".tar.gz")
    assert name.endswith("é.tar.gz")
    assert 253 <= len(name.encode()) <= 255


@given(st.lists(ANY_NAME, max_size=6))
def test_free_names_differ_and_can_be_used(names: list[str]) -> None:
    taken: set[str] = set()
    for name in names:
        free = unused_name(work_name(name), taken)
        assert free not in taken
        assert is_input_name(free)
        taken.add(free)


@pytest.mark.parametrize(
    ("wanted", "second"),
    [
        ("data (1).csv", "data (1)_2.csv"),
        ("v1.2 report.csv", "v1.2 report_2.csv"),
        ("a.tar.gz", "a_2.tar.gz"),
        ("Makefile", "Makefile_2"),
        (".env", ".env_2"),
    ],
)
def test_the_second_of_a_name_is_renamed_before_its_ending(
    wanted: str, second: str
) -> None:
    assert unused_name(wanted, {wanted}) == second
    assert unused_name(wanted, {wanted, second}) == second.replace("_2", "_3")


@given(ANY_NAME)
def test_a_download_has_a_harmless_name(name: str) -> None:
    safe = download_name(name)
    assert safe
    assert safe[0] not in ".- "
    assert safe[-1] not in ". "
    assert len(safe.encode()) <= 200
    assert not set(safe) & set('<>:"/\\|?*\n\r\0')
    assert all(unicodedata.category(c) not in ("Cc", "Cf", "Cs") for c in safe)
    assert download_name(safe) == safe


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("chart.png", "chart.png"),
        ("out/by month.csv", "by month.csv"),
        ("new\nline.txt", "new_line.txt"),
        ("-rf.txt", "_-rf.txt"),
        ("\u202egnp.exe", "_gnp.exe"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("console.txt", "console.txt"),
        ("100%25.txt", "100%25.txt"),
        ("", "_"),
    ],
)
def test_a_download_is_named_like_the_file(name: str, safe: str) -> None:
    assert download_name(name) == safe


@given(ANY_NAME, st.integers(9, 80))
def test_a_shown_name_is_short_and_keeps_its_ending(name: str, most: int) -> None:
    shown = short_name(name, most)
    assert len(shown) <= most
    assert shown == name or (shown[-3:] == name[-3:] and "…" in shown)
