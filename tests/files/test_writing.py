"""Files appear whole or not at all."""

import json
import os

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


def test_json_round_trips(tmp_path):
    path = tmp_path / "value.json"
    writing.write_json(str(path), {"é": [1, None]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"é": [1, None]}
    assert path.read_text(encoding="utf-8").endswith("}\n")
