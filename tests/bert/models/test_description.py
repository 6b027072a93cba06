"""The typed content of task.json."""

import json
import math
import re

import pytest

from bert.models import description as description_lib


def test_a_description_is_read_as_it_was_written():
    description = description_lib.Description(
        task="question_answering",
        labels=("a", "b"),
        max_seq_length=64,
        do_lower_case=False,
        null_score_diff_threshold=-math.inf,
        flags={"stars": [1, 2], "scale": 5, "columns": None},
    )
    values = json.loads(json.dumps(description.to_json()))
    assert values == {
        "task": "question_answering",
        "labels": ["a", "b"],
        "max_seq_length": 64,
        "do_lower_case": False,
        "null_score_diff_threshold": "-inf",
        "stars": [1, 2],
        "scale": 5,
    }
    again = description_lib.Description.from_json(values)
    assert again.to_json() == values
    assert again.null_score_diff_threshold == -math.inf
    assert again.labels == ("a", "b")


def test_null_says_nothing():
    values = {"task": None, "labels": None, "own": 1}
    description = description_lib.Description.from_json(values)
    assert description == description_lib.Description(flags={"own": 1})
    assert description.to_json() == {"own": 1}


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("task", 3, "a string"),
        ("labels", "ab", "a list of strings"),
        ("labels", ["a", 1], "a list of strings"),
        ("max_seq_length", "8", "a whole number"),
        ("max_seq_length", True, "a whole number"),
        ("max_seq_length", 8.0, "a whole number"),
        ("max_seq_length", -8, "a whole number"),
        ("do_lower_case", 1, "true or false"),
        ("do_lower_case", "false", "true or false"),
        ("null_score_diff_threshold", True, "a number or a string"),
        ("null_score_diff_threshold", [], "a number or a string"),
    ],
)
def test_an_entry_of_another_type_is_named(name, value, kind):
    message = re.escape(f"here.json: {name!r} must be {kind}; got {value!r}")
    with pytest.raises(ValueError, match=message):
        description_lib.Description.from_json({name: value}, "here.json")


def test_another_description_fills_in_what_is_not_said():
    first = description_lib.Description(task="tagging", flags={"a": 1})
    second = description_lib.Description(
        task="classification", do_lower_case=False, flags={"a": 2, "b": 3}
    )
    nothing = description_lib.Description(flags={"b": None})
    assert nothing.completed(second).stated("b") == 3
    assert first.completed(second) == description_lib.Description(
        task="tagging", do_lower_case=False, flags={"a": 1, "b": 3}
    )


def test_entries_are_found_by_name():
    description = description_lib.Description(labels=("x",), flags={"own": 0})
    assert description.stated("labels") == ("x",)
    assert description.stated("own") == 0
    assert description.stated("task") is None
    assert description.stated("unknown") is None
