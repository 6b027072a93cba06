"""Output paths are checked; files appear whole or not at all."""

import errno
import json
import math
import os
import pathlib
import stat

import pytest
import tensorflow as tf

from bert.files import paths, writing


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "folder" / "name.txt"
    with writing.whole_file(str(path)) as file:
        file.write("é\r\n")
        assert not path.exists()
    assert path.read_bytes() == "é\r\n".encode()
    assert os.listdir(path.parent) == ["name.txt"]


def test_a_failure_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "name"
    path.write_bytes(b"earlier")
    with (
        pytest.raises(KeyError, match="midway"),
        writing.whole_file(str(path), "wb") as file,
    ):
        file.write(b"half")
        raise KeyError("midway")
    assert path.read_bytes() == b"earlier"
    assert os.listdir(tmp_path) == ["name"]


def test_remote_files_are_written_whole_or_not_at_all(tmp_path):
    folder = f"file://{tmp_path}/made"  # Through TensorFlow.
    writing.write_files(folder, {"name": ["é\r\n", "\ud800"]})
    expected = "é\r\n\\ud800".encode()
    assert b"".join(paths.chunks_of(f"{folder}/name")) == expected
    writing.copy_file(f"{folder}/name", f"{folder}/copy")
    assert b"".join(paths.chunks_of(f"{folder}/copy")) == expected
    # A later file replaces it.
    writing.write_files(folder, {"copy": ["later"]})
    assert b"".join(paths.chunks_of(f"{folder}/copy")) == b"later"
    for name in ("name", "absent"):
        with (
            pytest.raises(KeyError, match="midway"),
            writing.whole_file(f"{folder}/{name}", "wb") as file,
        ):
            file.write(b"half")
            raise KeyError("midway")
    assert b"".join(paths.chunks_of(f"{folder}/name")) == expected
    assert not paths.exists(f"{folder}/absent")


def test_a_full_disk_names_the_file(tmp_path):
    path = str(tmp_path / "name")
    with pytest.raises(OSError, match="No space left") as caught:  # noqa: SIM117
        with writing.whole_file(path) as file:
            os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
            file.write("x")
    assert caught.value.filename == path
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_each_error_of_no_room_names_the_file(tmp_path, number):
    path = str(tmp_path / "name")
    with pytest.raises(OSError) as caught, writing.whole_file(path):
        raise OSError(number, os.strerror(number))
    assert caught.value.filename == path
    assert caught.value.errno == number


def test_a_store_that_refuses_a_file_is_an_error_with_its_name(
    tmp_path, monkeypatch
):
    path = f"file://{tmp_path}/name"

    def refuse(*_args, **_details):
        raise tf.errors.PermissionDeniedError(None, None, "no permission.")

    # No store within reach of a test refuses a file.
    monkeypatch.setattr(tf.io.gfile, "copy", refuse)
    with (
        pytest.raises(OSError, match=f"{path}: no permission"),
        writing.whole_file(path) as file,
    ):
        file.write("x")


def test_a_folder_appears_when_it_is_complete_or_not_at_all(tmp_path):
    path = tmp_path / "name"
    (tmp_path / ".name.partial").mkdir()
    with (
        pytest.raises(KeyError, match="midway"),
        writing.whole_folder(str(path)) as folder,
    ):
        os.mkdir(folder)
        raise KeyError("midway")
    assert os.listdir(tmp_path) == []
    with writing.whole_folder(str(path)) as folder:
        os.mkdir(folder)
        (pathlib.Path(folder) / "file").touch()
        assert not path.exists()
    assert os.listdir(tmp_path) == ["name"]
    assert os.listdir(path) == ["file"]


def test_numbers_that_json_lacks_are_null(tmp_path):
    path = tmp_path / "value.json"
    numbers = [1.5, float("nan"), float("-inf"), True, 10**400]
    writing.write_json(str(path), {"a": numbers, "b": {"c": (numbers[1],)}})
    found = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert found == {"a": [1.5, None, None, True, 10**400], "b": {"c": [None]}}


def test_json_holds_any_text(tmp_path):
    value = {"é": [1, None], "text": "half of an emoji: \ud83d"}
    path = tmp_path / "value.json"
    writing.write_json(str(path), value)
    assert json.loads(path.read_bytes()) == value
    assert path.read_bytes().endswith(b"}\n")


def test_files_and_folders_that_can_be_made_pass_and_are_not_made(tmp_path):
    for path in ("new", "a/b/new", "there"):
        (tmp_path / "there").touch()
        writing.check_files([str(tmp_path / path)])
    writing.check_folder(str(tmp_path))
    writing.check_folder(str(tmp_path / "a" / "b"))
    writing.check_folder("")
    writing.check_folder("new/new")
    writing.check_files(["new"])
    writing.check_files([str(tmp_path / "x"), str(tmp_path / "y")])
    assert os.listdir(tmp_path) == ["there"]


def test_remote_folders_are_made_and_refusals_of_the_store_are_errors(tmp_path):
    writing.check_files([f"file://{tmp_path}/a/x"])  # Through TensorFlow.
    assert os.listdir(tmp_path) == ["a"]
    (tmp_path / "file").touch()
    for path, message in (
        (f"file://{tmp_path}/file/x", "is not a directory"),
        ("nowhere://bucket/x", "'nowhere' not implemented"),
    ):
        with pytest.raises(OSError, match=message):
            writing.check_files([path])
        with (
            pytest.raises(OSError, match=message),
            writing.whole_file(path) as file,
        ):
            file.write("x")


def test_folders_are_no_files_and_files_no_folders(tmp_path):
    with pytest.raises(IsADirectoryError, match="a file to write; it is a fol"):
        writing.check_files([str(tmp_path)])
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "a" / "b"):
        with pytest.raises(NotADirectoryError, match=r"file must be a folder"):
            writing.check_folder(str(folder))
    with pytest.raises(NotADirectoryError, match=r"file must be a folder"):
        writing.check_files([str(file / "a")])


def test_streams_may_be_several_outputs(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writing.check_files([pipe, pipe], [pipe])
    assert paths.is_stream(pipe)
    assert not paths.is_stream(f"{pipe}/a")


def test_files_are_the_same_by_whatever_name(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    first, second = (str(tmp_path / name / "x") for name in ("folder", "link"))
    with pytest.raises(ValueError, match="it is the output "):
        writing.check_files([first, second])
    with pytest.raises(ValueError, match="it is the input "):
        writing.check_files([first], [second])
    other = str(tmp_path / "link" / "y")
    writing.check_files([first, other], [str(tmp_path / "x")])


def test_links_are_followed(tmp_path):
    target, link = tmp_path / "elsewhere/target", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    with writing.whole_file(str(link)) as file:
        file.write("x")
    assert link.is_symlink()
    assert target.read_text() == "x"
    assert os.listdir(target.parent) == ["target"]


def test_pipes_are_written_in_place(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with writing.whole_file(str(pipe)) as file:
        file.write("x")
    assert os.read(reader, 9) == b"x"
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.mark.parametrize("lacks", [os.W_OK, os.X_OK])
def test_unwritable_folders_are_named(tmp_path, monkeypatch, lacks):
    # The superuser, who may run the tests, may write anywhere.
    monkeypatch.setattr(writing.os, "access", lambda _, mode: not mode & lacks)
    with pytest.raises(PermissionError, match=f"write in {tmp_path}"):
        writing.check_files([str(tmp_path / "new")])


def test_an_appended_line_does_not_join_one_that_was_cut(tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    writing.append_json(str(path), {"a": "\u00e4"})
    with path.open("ab") as file:
        file.write(b'{"b')
    writing.append_json(str(path), {"c": 2})
    writing.append_json(str(path), {"d": math.inf})
    assert path.read_text() == (
        '{"a": "\\u00e4"}\n{"b\n{"c": 2}\n{"d": null}\n'
    )


def test_a_line_is_appended_to_a_remote_log(tmp_path):
    path = f"file://{tmp_path}/log.jsonl"  # Through TensorFlow.
    for value in (1, 2):
        writing.append_json(path, {"a": value})
    assert (tmp_path / "log.jsonl").read_text() == '{"a": 1}\n{"a": 2}\n'


def _log_of_disk(monkeypatch):
    """Returns a list of what is synced to disk and what is renamed.

    Otherwise only a failure of power shows it.
    """
    log = []

    def sync(descriptor):
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        log.append("sync folder" if is_folder else "sync file")

    def wrap(name):
        rename = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *paths: (log.append("rename"), rename(*paths))
        )

    monkeypatch.setattr(os, "fsync", sync)
    wrap("replace")
    wrap("rename")
    return log


def test_a_file_is_on_disk_before_its_name_and_its_name_at_the_end(
    tmp_path, monkeypatch
):
    log = _log_of_disk(monkeypatch)
    with writing.whole_file(str(tmp_path / "name")) as file:
        file.write("text")
        assert log == []
    assert log == ["sync file", "rename", "sync folder"]


def test_the_name_of_a_folder_is_on_disk_at_the_end(tmp_path, monkeypatch):
    log = _log_of_disk(monkeypatch)
    with writing.whole_folder(str(tmp_path / "name")) as folder:
        os.mkdir(folder)
        assert log == []
    assert log == ["rename", "sync folder"]
