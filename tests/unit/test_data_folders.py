"""Data folders: what may be named, and what is looked at before anybody sees it."""

import socket

import pytest

from sandbox_core.data_folders import DataFolder, DataFolders, parse_data_folders
from sandbox_core.errors import InvalidRequest


def test_entries_stand_between_commas_or_on_lines():
    folders = parse_data_folders(
        " sales=/srv/sales, maps = /srv/a b/ \n\nx.1=/opt//x/,"
    )
    assert folders == (
        DataFolder("sales", "/srv/sales"),
        DataFolder("maps", "/srv/a b"),
        DataFolder("x.1", "/opt/x"),
    )
    assert folders[0].target == "/data/sales"
    assert parse_data_folders("") == ()


@pytest.mark.parametrize(
    "text",
    ["/srv/sales", "sales=srv", "sales=", "a/b=/srv", ".a=/srv", "a b=/srv", "ä=/srv"],
)
def test_another_form_is_refused_with_the_right_one(text):
    with pytest.raises(InvalidRequest, match="is written name=/path/of/the/folder"):
        parse_data_folders(text)


def test_a_name_is_used_once_and_there_are_sixteen_at_most():
    with pytest.raises(InvalidRequest, match="two data folders with the name “a”"):
        parse_data_folders("a=/srv/a,b=/srv/b,a=/srv/c")
    with pytest.raises(InvalidRequest, match="16 data folders at most"):
        parse_data_folders(",".join(f"n{number}=/srv" for number in range(17)))


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/",
            "//",
            "/proc",
            "/sys/kernel",
            "/dev",
            "/etc/ssl",
            "/run/user/1",
            "/root",
        ),
        *(
            "/var/run",
            "/var",
            "/var/lib",
            "/var/lib/docker/volumes/x/_data",
            "/usr/bin",
        ),
        *("/srv/../etc", "/./proc/", "//etc"),
    ],
)
def test_a_folder_of_the_system_is_refused(path):
    with pytest.raises(InvalidRequest, match=r"“x” cannot be used.* the system's"):
        parse_data_folders(f"x={path}")


def checked(path, **options):
    return DataFolders([DataFolder("x", str(path))], **options).checked()


def refusal_of(path, **options):
    with pytest.raises(InvalidRequest) as caught:
        checked(path, **options)
    return str(caught.value)


def test_a_folder_is_given_by_its_real_path(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert checked(tmp_path / "link") == (DataFolder("x", str(tmp_path / "real")),)


def test_what_is_no_folder_is_refused(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("missing", "file", "loop"):
        assert "no such folder on this machine" in refusal_of(tmp_path / name)


def test_a_link_to_a_folder_of_the_system_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    assert "the system's" in refusal_of(tmp_path / "link")


def test_a_socket_at_any_depth_is_refused(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert checked(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(inner / "s"))
        assert "it holds a socket" in refusal_of(tmp_path)


def test_the_data_of_open_webui_is_refused_from_both_sides(tmp_path):
    own, inner = tmp_path / "own", tmp_path / "own" / "uploads"
    inner.mkdir(parents=True)
    (tmp_path / "link").symlink_to("own")
    for path in (tmp_path, own, inner, tmp_path / "link"):
        assert "Open WebUI's own data" in refusal_of(path, forbidden=[own])
    beside = tmp_path / "own-not"
    beside.mkdir()
    assert checked(beside, forbidden=[own])


def test_an_engine_elsewhere_is_refused(tmp_path):
    text = refusal_of(tmp_path, engine_is_here=False)
    assert "on another machine" in text
    assert "CODEBOX_DATA_FOLDERS" in text
    assert DataFolders(engine_is_here=False).checked() == ()


def test_a_bad_folder_is_looked_at_again_and_a_good_one_not_at_once(tmp_path):
    folder = tmp_path / "late"
    folders = DataFolders([DataFolder("x", str(folder))])
    with pytest.raises(InvalidRequest):
        folders.checked()
    folder.mkdir()
    assert folders.checked()
    folder.rmdir()
    assert folders.checked()
