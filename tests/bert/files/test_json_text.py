"""Invalid JSON, by every error of Python's reader."""

import gzip

import pytest

from bert.files import json_text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":\n ]', "x: must be JSON .Expecting value: line 2 column 2"),
        (b'"\xff"', "x: must be JSON .*byte 0xff in position 1"),
        (b"[" * 100_000, "x: must be JSON "),
        (b"9" * 5_000, "x: must be JSON .*digits"),
        ("", "x: must be JSON .Expecting value"),
    ],
)
def test_invalid_json_is_named(content, message):
    with pytest.raises(ValueError, match=message) as caught:
        json_text.parse(content, "x")
    assert type(caught.value) is ValueError


def test_a_byte_order_mark_is_allowed():
    assert json_text.parse(b'\xef\xbb\xbf{"a": [1]}', "x") == {"a": [1]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"{}"), "must be text; it is a gzip file"),
        ("{}".encode("utf-16"), r"line 1: not UTF-8 .*mark of UTF-16.*utf-16'"),
        (b'{\n"\xe9": 1}', r"line 2: not UTF-8 .byte 0xe9.*cp1252'"),
    ],
)
def test_a_file_that_is_no_utf_8_is_named_with_a_command(
    tmp_path, content, message
):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.json.*{message}"):
        json_text.read(str(path))
    path.write_bytes(b"\xef\xbb\xbf{\r\n}\r\n")
    assert json_text.read(str(path)) == {}
    path.write_bytes(b'{"a": fal\rse}')
    with pytest.raises(ValueError, match="must be JSON"):
        json_text.read(str(path))


@pytest.mark.parametrize(
    ("value", "is_number"),
    [
        (0, True),
        (-2.5, True),
        (3.4028234663852886e38, True),
        (-3.4028234663852886e38, True),
        (3.5e38, False),
        (float("nan"), False),
        (True, False),
        ("1", False),
        (None, False),
    ],
)
def test_a_number_is_finite_in_float32_and_no_truth_value(value, is_number):
    assert json_text.is_number(value) is is_number
    record = {"a": value}
    if is_number:
        assert json_text.field(record, "a", (float, int), "x") == value
        return
    with pytest.raises(
        ValueError, match=r"x\.a must be a number or a whole number"
    ):
        json_text.field(record, "a", (float, int), "x")


def test_damaged_lines_of_a_log_are_skipped(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [b'{"a": 1}', b"", b"\xff{", b"[1]", b'{"b"', b'{"c": 2}', b'{"d']
    path.write_bytes(b"\n".join(lines))
    assert list(json_text.read_log(str(path))) == [{"a": 1}, {"c": 2}]
    assert list(json_text.read_log(str(tmp_path / "missing"))) == []


@pytest.mark.parametrize("kind", [int, (float, int), (int, str)])
def test_a_truth_value_is_no_number_of_a_field(kind):
    with pytest.raises(ValueError, match=r"^x\.a must be .*number.*; got True"):
        json_text.field({"a": True}, "a", kind, "x")
    assert json_text.field({"a": True}, "a", bool, "x") is True
    assert json_text.field({"a": 1}, "a", kind, "x") == 1
