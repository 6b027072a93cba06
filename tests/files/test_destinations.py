import os

import pytest

from files import destinations


def test_files_and_folders_that_can_be_made_pass_and_are_not_made(tmp_path):
    for path in ("new", "a/b/new", "there"):
        (tmp_path / "there").touch()
        destinations.check_file(str(tmp_path / path))
    destinations.check_folder(str(tmp_path))
    destinations.check_folder(str(tmp_path / "a" / "b"))
    destinations.check_folder("")
    destinations.check_file("new")
    destinations.check_files(["gs://bucket/x", str(tmp_path / "y")])
    destinations.check_folder("gs://bucket")
    assert os.listdir(tmp_path) == ["there"]


def test_folders_are_no_files_and_files_no_folders(tmp_path):
    with pytest.raises(IsADirectoryError, match="a file to write; it is a fol"):
        destinations.check_file(str(tmp_path))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError, match=r"it is a file\.$"):
        destinations.check_folder(str(file))
    inside = str(file / "a" / "b")
    for check in (destinations.check_file, destinations.check_folder):
        with pytest.raises(NotADirectoryError, match=r"so .* cannot be c"):
            check(inside)


def test_streams_may_be_several_outputs(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    destinations.check_files([pipe, pipe], [pipe])
    assert destinations.is_stream(pipe)
    assert not destinations.is_stream(f"{pipe}/a")
    with pytest.raises(ValueError, match="pipe must be a regular file"):
        destinations.check_seekable([str(tmp_path / "a"), pipe])


def test_files_are_the_same_by_whatever_name(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    first, second = (str(tmp_path / name / "x") for name in ("folder", "link"))
    with pytest.raises(ValueError, match="are the same file"):
        destinations.check_files([first, second])
    with pytest.raises(ValueError, match="it is the input"):
        destinations.check_files([first], [second])
    other = str(tmp_path / "link" / "y")
    destinations.check_files([first, other], [str(tmp_path / "x")])


def test_unwritable_folders_are_named(tmp_path, monkeypatch):
    # The superuser, who may run the tests, may write anywhere.
    monkeypatch.setattr(destinations.os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=f"write in {tmp_path}"):
        destinations.check_file(str(tmp_path / "new"))
