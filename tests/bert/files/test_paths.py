"""Globs, lists of files, remote names."""

import glob
import os
import pathlib
import threading

import pytest

from bert.files import paths


def test_patterns_keep_their_order_and_sort_their_matches(tmp_path):
    for name in ("b2", "b1", "a"):
        (tmp_path / name).write_text("")
    found = paths.expand(f"{tmp_path}/b*, {tmp_path}/a")
    assert found == [f"{tmp_path}/{name}" for name in ("b1", "b2", "a")]


def test_matches_are_sorted_whatever_the_order_of_the_file_system(
    tmp_path, monkeypatch
):
    names = [str(tmp_path / name) for name in ("b", "c", "a")]
    for name in names:
        pathlib.Path(name).touch()
    # Many file systems sort names themselves.
    monkeypatch.setattr(glob, "glob", lambda pattern: names)
    assert paths.expand(f"{tmp_path}/*") == sorted(names)
    assert paths.matching(str(tmp_path), "*") == sorted(names)


def test_a_file_whose_name_is_a_pattern_is_found(tmp_path):
    path = tmp_path / "x[1].txt"
    path.write_text("")
    assert paths.expand(str(path)) == [str(path)]


def test_naming_no_file_is_an_error(tmp_path):
    for patterns in ("", " , "):
        with pytest.raises(ValueError, match="No file is named"):
            paths.expand(patterns)
    with pytest.raises(ValueError, match=r"No file matches '.*/missing\*'"):
        paths.expand(f"{tmp_path}/missing*")
    with pytest.raises(ValueError, match=rf"{tmp_path} is a folder; .*/\*\.$"):
        paths.expand(str(tmp_path))


def test_a_folder_is_taken_as_it_is_written(tmp_path):
    folder = tmp_path / "a,b [1]*"
    folder.mkdir()
    for name in ("2.txt", "1.txt", "3.csv"):
        (folder / name).write_text("")
    found = paths.matching(str(folder), "*.txt")
    assert found == [f"{folder}/1.txt", f"{folder}/2.txt"]
    assert paths.matching(str(folder), "*.md") == []


def test_remote_names_are_told_from_local_ones():
    assert paths.is_remote("gs://bucket/vocab.txt")
    assert not paths.is_remote("/data/vocab.txt")


def test_chunks_join_to_the_file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(256)) * 10_000)
    chunks = list(paths.chunks_of(str(path)))
    assert len(chunks) == 3
    assert b"".join(chunks) == path.read_bytes()


def test_remote_files_are_found_by_their_names(tmp_path):
    folder = f"file://{tmp_path}"  # Through TensorFlow.
    (tmp_path / "x[1].txt").write_text("a")
    assert paths.exists(f"{folder}/x[1].txt")
    assert paths.expand(f"{folder}/x[1].txt") == [f"{folder}/x[1].txt"]
    assert paths.expand(f"{folder}/*.txt") == [f"{folder}/x[1].txt"]
    assert not paths.exists(f"{folder}/x*.txt")
    assert not paths.exists(folder)
    assert paths.open_to_read(f"{folder}/x[1].txt").read() == b"a"


def test_a_file_is_removed_wherever_it_is_and_may_be_missing(tmp_path):
    for folder in (str(tmp_path), f"file://{tmp_path}"):
        for name in ("a", "b"):
            (tmp_path / name).touch()
        paths.remove(f"{folder}/a")
        paths.remove(f"{folder}/a")
        assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_errors_of_remote_files_are_those_of_the_system(tmp_path):
    missing = f"file://{tmp_path}/missing"
    with pytest.raises(FileNotFoundError, match="No such file") as caught:
        paths.open_to_read(missing)
    assert caught.value.filename == missing
    for use in (paths.open_to_read, paths.exists, paths.expand):
        with pytest.raises(OSError, match="scheme 'nowhere' not implemented"):
            use("nowhere://bucket/x")


def test_a_pipe_is_not_hashed_and_not_opened_before_it_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    path = str(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe must be a regular file"):
        paths.sha256(path)
    # To open it would wait for a writer.
    check = threading.Thread(
        target=paths.check_readable, args=(path,), daemon=True
    )
    check.start()
    check.join(30)
    assert not check.is_alive()


def test_a_folder_is_no_stream_and_no_file_to_read(tmp_path):
    assert not paths.is_stream(str(tmp_path))
    (tmp_path / "file").touch()
    for name in ("file", "file/below", "missing/below"):
        assert not paths.is_stream(str(tmp_path / name))
    with pytest.raises(IsADirectoryError):
        paths.check_readable(str(tmp_path))


def test_names_in_a_folder_are_of_its_files(tmp_path):
    (tmp_path / "b.txt").touch()
    (tmp_path / "a").touch()
    for folder in (str(tmp_path), f"file://{tmp_path}"):
        assert paths.names_in(folder) == ["a", "b.txt"]
        assert paths.names_in(f"{folder}/missing") == []
    (tmp_path / "below").mkdir()
    assert paths.names_in(str(tmp_path)) == ["a", "b.txt"]


def test_an_address_does_not_depend_on_the_working_folder(monkeypatch):
    monkeypatch.chdir("/tmp")
    assert paths.absolute("gs://bucket/x") == "gs://bucket/x"
    assert paths.absolute("x") == os.path.realpath("/tmp") + "/x"
