"""Invalid JSON, by every error of Python's reader."""

import pytest

from files import json_text


def test_a_value_must_have_the_given_shape():
    shape = {"a": [int], "b": ({"*": str}, type(None))}
    for value in ({"a": []}, {"a": [1], "b": {}}, {"a": [2], "b": {"x": "y"}}):
        assert json_text.has_shape(value, shape)
    for value in (
        [],
        {},
        {"a": ["1"]},
        {"a": [], "b": 1},
        {"a": [], "b": {"x": 1}},
    ):
        assert not json_text.has_shape(value, shape)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a":\n ]', "x.json, line 2, column 2: must be JSON: Expecting"),
        (b'"\xff"', "x.json: must be UTF-8; byte 1 is not"),
        (b"[" * 100_000, "x.json: must be JSON "),
        (b"9" * 5_000, "x.json: must be JSON .*digits"),
        (b"", "x.json, line 1, column 1: must be JSON"),
    ],
)
def test_invalid_json_is_named(content, message):
    with pytest.raises(ValueError, match=message) as caught:
        json_text.parse(content, "x.json")
    assert type(caught.value) is ValueError


@pytest.mark.parametrize("line", ["[" * 100_000, "9" * 5_000, "{", ""])
def test_invalid_json_lines_are_named(line):
    with pytest.raises(ValueError, match="x, line 7: not JSON") as caught:
        json_text.parse_line(line, "x, line 7")
    assert type(caught.value) is ValueError


def test_a_byte_order_mark_is_allowed():
    assert json_text.parse(b'\xef\xbb\xbf{"a": [1]}', "x") == {"a": [1]}
