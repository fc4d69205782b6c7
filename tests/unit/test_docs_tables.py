"""Generated tables: what they hold, and what the markers must look like."""

import pytest
from docs_tables import TABLES, TableError, fill_tables, run

from owui_plugin.valves import EveryValve
from sandbox_core.languages import LANGUAGES
from sandbox_core.limits import limit_records

BEGIN, END = "<!-- table: limits -->", "<!-- end table -->"
ALL_REGIONS = "".join(f"<!-- table: {name} -->\nold\n{END}\ntext\n" for name in TABLES)


def test_tables_hold_every_record():
    assert len(TABLES["limits"]().splitlines()) == 2 + len(limit_records())
    assert len(TABLES["languages"]().splitlines()) == 2 + len(LANGUAGES)
    valves = TABLES["valves"]()
    assert all(f"| `{name}` |" in valves for name in EveryValve.model_fields)
    assert "RUN_CODE_TIMEOUT_SECONDS" in valves
    assert "RUN_CODE_PRIORITY" not in valves


@pytest.mark.parametrize("table", TABLES.values())
def test_every_row_has_the_columns_of_the_head(table):
    assert len({line.count("|") for line in table().splitlines()}) == 1


def test_region_is_filled_and_the_rest_is_left():
    text, names = fill_tables(f"a\n{BEGIN}\nold\n{END}\nb\n", "f.md")
    assert names == {"limits"}
    assert text == f"a\n{BEGIN}\n\n{TABLES['limits']()}\n\n{END}\nb\n"
    assert fill_tables(text, "f.md") == (text, names)


def test_markers_in_a_line_are_text():
    text = f"write `{BEGIN}` and `{END}`\n"
    assert fill_tables(text, "f.md") == (text, set())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"\n{END}\n", "f.md:2: Close each"),
        (f"{BEGIN}\n{BEGIN}\n{END}\n", "f.md:2: Close each"),
        (f"{BEGIN}\n", "The table limits has no"),
        (f"<!-- table: other -->\n{END}\n", "f.md:1: There is no table other"),
    ],
)
def test_bad_markers_are_refused(text, sentence):
    with pytest.raises(TableError, match=sentence):
        fill_tables(text, "f.md")


def test_check_and_write(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").write_text(ALL_REGIONS, "utf-8")
    (tmp_path / "README.md").write_text("no table\n", "utf-8")
    assert list(run(tmp_path, check=True)) == [
        "The tables of docs/a.md are out of step with the code. "
        "Run: python scripts/docs_tables.py"
    ]
    assert list(run(tmp_path, check=False)) == ["docs/a.md written."]
    assert list(run(tmp_path, check=True)) == []


def test_table_that_no_document_has_is_missed(tmp_path):
    (tmp_path / "README.md").write_text(f"{BEGIN}\n{END}\n", "utf-8")
    with pytest.raises(
        TableError, match="No document has the table codebox, languages, valves"
    ):
        list(run(tmp_path, check=False))
