"""Files appear whole or not at all."""

import json
import os
import pathlib
import platform

import pytest

from files import writing


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


def test_files_of_dead_processes_are_removed_and_no_others(tmp_path):
    # No process has this number: it is beyond what systems allow.
    dead, node = "99999999", platform.node()
    gone = [
        *(f".name.{node}.{dead}.partial", f".name.{dead}.partial"),
        *(f".name.{dead}.partial.index", f".name.{dead}.partial_temp"),
    ]
    kept = [
        f".name.{node}.{os.getppid()}.partial",
        *(f".name.elsewhere.{dead}.partial", f".other.{dead}.partial"),
        *(".name.partial", f"name.{dead}.partial", "name"),
    ]
    for name in (*gone[:-1], *kept):
        (tmp_path / name).touch()
    (tmp_path / gone[-1]).mkdir()
    (tmp_path / gone[-1] / "inside").touch()
    writing.remove_remains(str(tmp_path / "name"))
    assert sorted(os.listdir(tmp_path)) == sorted(kept)
    writing.remove_remains(str(tmp_path / "absent" / "name"))
    writing.remove_remains("gs://bucket/name")


def test_writing_a_file_removes_those_of_dead_processes(tmp_path):
    (tmp_path / ".name.99999999.partial").touch()
    with writing.whole_file(str(tmp_path / "name")):
        pass
    assert os.listdir(tmp_path) == ["name"]


def test_a_folder_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "name"
    (tmp_path / ".name.99999999.partial").mkdir()
    with writing.whole_folder(str(path)) as folder:
        os.mkdir(folder)
        (pathlib.Path(folder) / "file").touch()
        assert not path.exists()
    assert os.listdir(tmp_path) == ["name"]
    assert os.listdir(path) == ["file"]


def test_a_folder_that_fails_leaves_nothing(tmp_path):
    with (
        pytest.raises(KeyError, match="midway"),
        writing.whole_folder(str(tmp_path / "name")) as folder,
    ):
        os.mkdir(folder)
        raise KeyError("midway")
    assert os.listdir(tmp_path) == []


def test_numbers_that_json_lacks_are_null(tmp_path):
    path = tmp_path / "value.json"
    numbers = [1.5, float("nan"), float("-inf"), True, 10**400]
    writing.write_json(str(path), {"a": numbers, "b": {"c": (numbers[1],)}})
    found = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert found == {"a": [1.5, None, None, True, 10**400], "b": {"c": [None]}}


def test_json_round_trips(tmp_path):
    path = tmp_path / "value.json"
    writing.write_json(str(path), {"é": [1, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"é": [1, None]}
    assert path.read_text(encoding="utf-8").endswith("}\n")


def test_json_holds_text_that_utf_8_cannot_encode(tmp_path):
    value = {"text": "half of an emoji: \ud83d"}
    path = tmp_path / "value.json"
    writing.write_json(str(path), value)
    assert json.loads(path.read_bytes()) == value
