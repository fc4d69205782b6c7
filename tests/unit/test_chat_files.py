"""Which files belong to a chat, and under which names."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from owui_plugin.chat_files import (
    ChatFile,
    arrange_files,
    attached_files,
    branch_to,
    files_of_question,
    has_run,
    work_folder_note,
)
from sandbox_core.archive import is_input_name, plan_files
from sandbox_core.models import InputFile, KeptText, RunRequest, RunResult, Step
from sandbox_core.outcome import Outcome

NAMES = st.text("ab/.", max_size=6) | st.text(max_size=300)
FOUND = st.lists(
    st.builds(ChatFile, st.sampled_from("123456"), NAMES, st.booleans()), max_size=8
)


def names_of(*found: ChatFile) -> dict[str, str]:
    return {file.name: file.file_id for file in arrange_files(found)[0]}


def test_the_branch_is_followed_by_its_parents() -> None:
    messages = {
        "1": {"role": "user"},
        "2": {"role": "assistant", "parentId": "1"},
        "other": {"role": "assistant", "parentId": "1"},
        "3": {"role": "user", "parentId": "2"},
        "4": {"role": "assistant", "parentId": "3"},
    }
    assert [m["id"] for m in branch_to(messages, "3")] == ["1", "2", "3"]
    assert branch_to(messages, "missing") == []
    circle = {"1": {"parentId": "2"}, "2": {"parentId": "1"}}
    assert [m["id"] for m in branch_to(circle, "1")] == ["2", "1"]


def test_documents_and_images_of_a_person_are_found() -> None:
    message: dict[str, Any] = {
        "role": "user",
        "files": [
            {"type": "file", "id": "f-1", "url": "f-1", "name": "a.csv"},
            {"type": "image", "url": "f-2", "name": "b.png"},
            {"type": "image", "url": "/api/v1/files/f-3/content"},
            {"type": "image", "url": "data:image/png;base64,AAAA"},
            {"type": "collection", "id": "knowledge"},
            {"type": "file", "id": "../../etc/passwd", "name": "x"},
            "nonsense",
        ],
    }
    assert attached_files(message) == [
        ChatFile("f-1", "a.csv"),
        ChatFile("f-2", "b.png"),
        ChatFile("f-3", ""),
    ]
    assert attached_files({**message, "role": "assistant"}) == []
    assert attached_files({"role": "user", "files": None}) == []


def test_a_message_with_a_run_is_known_by_our_marks() -> None:
    assert has_run({"statusHistory": [{"run_code": {"state": "ended"}}]})
    assert has_run({"output": [{"id": "msg_run_code_1"}]})
    assert not has_run({"statusHistory": [{"description": "x"}], "output": [{}, 3]})


def test_the_newest_version_of_a_made_file_counts() -> None:
    made = ChatFile("2", "data.csv", made=True)
    newer = ChatFile("3", "data.csv", made=True)
    assert names_of(ChatFile("1", "data.csv"), made, newer) == {"data.csv": "3"}


def test_attached_files_of_one_name_are_both_there() -> None:
    found = [ChatFile("1", "a.csv"), ChatFile("2", "a.csv"), ChatFile("1", "a.csv")]
    placed, notes = arrange_files(found)
    assert {file.name: file.file_id for file in placed} == {
        "a.csv": "1",
        "a_2.csv": "2",
    }
    assert len(notes) == 1
    assert "“a.csv”" in notes[0]
    assert "“a_2.csv”" in notes[0]


def test_a_folder_takes_the_place_of_a_file_and_the_other_way_round() -> None:
    folder = ChatFile("2", "out/a.csv", made=True)
    assert names_of(ChatFile("1", "out"), folder) == {"out/a.csv": "2"}
    assert names_of(folder, ChatFile("3", "out", made=True)) == {"out": "3"}
    assert names_of(folder, ChatFile("1", "out")) == {"out/a.csv": "2", "out_2": "1"}


@given(FOUND)
def test_whatever_is_found_a_run_can_take_it(found: list[ChatFile]) -> None:
    placed, _ = arrange_files(found)
    assert all(is_input_name(file.name) for file in placed)
    files = tuple(InputFile(file.name, b"x") for file in placed)
    plan_files(RunRequest((Step("python", "pass"),), files))


def test_what_a_temporary_chat_did_not_upload_is_listed_too() -> None:
    question = {
        "files": [
            {"type": "text", "id": "made-up", "name": "a.csv", "content": "1"},
            {"type": "file", "id": "f-1", "name": "b.csv"},
            {"type": "collection", "name": "c"},
        ]
    }
    assert files_of_question(question) == [
        ChatFile("f-1", "b.csv"),
        ChatFile("made-up", "a.csv"),
    ]
    assert files_of_question({}) == []


def test_a_missing_file_is_answered_with_what_was_there() -> None:
    error = KeptText("FileNotFoundError: [Errno 2] No such file or directory: 'x'")
    failed = RunResult("1", Outcome.FAILED, exit_code=1, output=error)
    note = work_folder_note(failed, [f"{n}.csv" for n in range(30)])
    assert "0.csv, 1.csv" in note
    assert "and 10 more" in note
    assert "empty" in work_folder_note(failed, [])
    targets = ("/data/sales", "/data/maps")
    for names in ([], ["a.csv"]):
        note = work_folder_note(failed, names, targets)
        assert note.endswith("Data folders, read-only: /data/sales, /data/maps.")
    assert work_folder_note(RunResult("1", Outcome.OK, output=error), ["a"]) == ""
    other = RunResult("1", Outcome.FAILED, output=KeptText("NameError"))
    assert work_folder_note(other, ["a"]) == ""
