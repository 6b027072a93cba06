"""Values in messages: whole where short, cut where long."""

import pytest

from bert.files import messages


def test_short_values_are_whole_and_long_ones_cut():
    assert messages.short("a'b") == repr("a'b")
    assert messages.short([1, "x"]) == "[1, 'x']"
    assert messages.short("x" * 10**6) == "'" + "x" * 56 + "..."
    assert len(messages.short("x" * 59)) == 60


def test_many_values_are_counted():
    assert messages.listed([]) == ""
    assert messages.listed(["a", 1]) == "'a', 1"
    assert messages.listed(range(25)).endswith("18, 19 and 5 more")
    assert messages.names(["a", "b", "c"], 2) == "a, b and 1 more"
    assert messages.names(["a", "b"], 2) == "a, b"


def test_the_nearest_name_is_suggested():
    names = ["MRPC", "mixed_bfloat16", "float32"]
    assert messages.suggestion("mrcp", names) == " Did you mean MRPC?"
    assert messages.suggestion("MRCP", names) == " Did you mean MRPC?"
    assert (
        messages.suggestion("bfloat16", names)
        == " Did you mean mixed_bfloat16?"
    )
    assert messages.suggestion("x", names) == ""


def test_a_value_is_one_of_its_choices():
    messages.check_choice("x", "a", {"a": 1, "b": 2})
    for value in ("c", ["a"], None):
        with pytest.raises(ValueError, match=r"^x must be one of a, b; got "):
            messages.check_choice("x", value, {"a": 1, "b": 2})


def test_changes_are_of_the_names_in_both():
    before, now = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": "x", "d": 4}
    assert messages.changes(before, now) == {"b": "b was 2 and is 'x'"}


def test_columns_are_as_wide_as_their_longest_cell():
    rows = [("a", "1", "x"), ("long", "200", "")]
    assert messages.table(rows) == "  a       1  x\n  long  200\n"
    assert messages.table(rows, right=0) == "     a  1    x\n  long  200\n"
    assert messages.table(rows, right=-1) == "  a     1    x\n  long  200\n"


def test_lines_end_at_spaces_alone_and_all_but_the_first_are_indented():
    text = "one two-three four /a/very-long/path five"
    assert messages.wrapped(text, 10, "  ") == (
        "one\n  two-three\n  four\n  /a/very-long/path\n  five"
    )


def test_an_error_of_a_library_names_the_file_and_its_form():
    with (
        pytest.raises(ValueError, match="copy it again") as caught,
        messages.broken("model.h5", "HDF5"),
    ):
        raise KeyError("x" * 400)
    text = str(caught.value)
    assert text.startswith("'model.h5' is truncated, or not a valid HDF5 file ")
    assert len(text) < 420
    with messages.broken("model.h5", "HDF5"):
        pass
