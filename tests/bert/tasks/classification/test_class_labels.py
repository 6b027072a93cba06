"""Labels: parsed, numbered, found and weighed."""

import numpy as np
import pytest
from sklearn.utils import class_weight

from bert.tasks.classification import class_labels, datasets
from tests.support import toy_files


def _set(*names, **options):
    return class_labels.LabelSet(names=names, **options)


_CLASSES = _set("no", "so-so", "yes")
_SEVERAL = _set("p", "q", problem_type="multi_label")
_SCORES = _set(problem_type="regression")


def test_class_is_numbered_by_its_place():
    label_set = _set("no", "maybe", "yes", aliases={"y": "yes"})
    assert label_set.encode(label_set.parse("yes")) == 2
    assert label_set.parse("y") == "yes"
    assert label_set.num_outputs == 3
    assert label_set.placeholder == "no"


def test_several_labels_become_a_row_of_zeros_and_ones():
    # In the order of the names, whatever that is.
    label_set = _set("y", "z", "x", problem_type="multi_label")
    assert label_set.encode(label_set.parse("x, y")) == (1.0, 0.0, 1.0)
    assert label_set.encode(label_set.parse("z")) == (0.0, 1.0, 0.0)
    assert label_set.parse(["y", "y"]) == ("y",)
    assert label_set.encode(label_set.parse("")) == (0.0, 0.0, 0.0)
    assert label_set.placeholder == ()


@pytest.mark.parametrize("cell", ["3.25", 3.25, " 3.25 "])
def test_score_is_a_number(cell):
    assert _SCORES.encode(_SCORES.parse(cell)) == 3.25
    assert (_SCORES.num_outputs, _SCORES.placeholder) == (1, 0.0)


@pytest.mark.parametrize(
    ("label_set", "cell", "message"),
    [
        (_set("0", "1"), "2", "unknown label '2'; allowed: '0', '1'"),
        (_set("0", "1"), "", "the label is empty"),
        (_set("0", "1"), 1.0, "must be text; got 1.0. For scores"),
        (_set("0", "1"), ["0"], r"text; got \['0'\]\. .*multi_label"),
        (_set("0", "1"), ["0", "1"], r"text; got \['0', '1'\]\. .*multi_label"),
        (_set("x", problem_type="multi_label"), "x,w", "unknown label 'w'"),
        (_SCORES, "good", "finite number"),
        (_SCORES, "nan", "finite number"),
        (_SCORES, "", "finite number"),
        (_SCORES, "1e39", "float32; got"),
        (_SCORES, "1_0", "finite number"),
    ],
)
def test_cell_that_is_no_label_is_an_error(label_set, cell, message):
    with pytest.raises(ValueError, match=message):
        label_set.parse(cell)


@pytest.mark.parametrize(
    "cell",
    ["-", " - ", "", "nan", "NaN", float("nan"), "?", "null", "<NA>", None],
)
def test_signs_of_other_programs_mean_no_label(cell):
    assert _set("0", "1").is_missing(cell)
    assert _SCORES.is_missing(cell)
    if isinstance(cell, str) and cell:  # Unless it is the name of a label.
        assert not _set("0", "1", cell.strip()).is_missing(cell)
    # An empty text is no label of several.
    several = _set("x", problem_type="multi_label")
    assert several.is_missing(cell) == (cell != "")


def test_a_label_or_an_unknown_word_is_not_missing():
    for cell in ("0", 1, -1, True, "none", "unsure", "- ok", ["-"]):
        assert not _set("0", "1").is_missing(cell)
    assert not _set("no", "yes", aliases={"-": "no"}).is_missing("-")
    stated = _set("0", "1", missing=("Unsure",))
    assert stated.is_missing("unsure")
    assert not stated.is_missing("-")


def test_rows_without_a_label_are_counted_and_give_no_class(tmp_path, caplog):
    values = ["-", "yes", "no", "-", "nan", None]
    assert _discover(tmp_path, values) == ("no", "yes")
    left_out, found = caplog.messages
    signs = "--missing_labels='-,?,nan,null,n/a,#n/a,<na>'"
    assert left_out.endswith(
        "4 of 6 rows have no label and are left out: the label is empty or "
        "one of " + signs
    )
    assert "labels 'no' (1), 'yes' (1)" in found
    assert signs in found
    with pytest.raises(ValueError, match=r"d\.jsonl: the file has no example"):
        _discover(tmp_path, [])
    names = _discover(tmp_path, values, missing=("nan",))
    assert names == ("-", "no", "yes")


@pytest.mark.parametrize(
    "cell",
    [
        *([0, 1, 0], [1.0, 0.0], [True, False], [["x"]], ["x", None]),
        *("[0, 1, 0]", "[0 1 0]", "1 0 0", "1;0;1", "1.0 0.0"),
        *("0,1,0", "1, 1", "0.0,1.0,0.0"),
        *("['x', 'y']", '["x"]', "('x', 'y')", "{x,y}"),
        *("x;y", "x|z", "x; y, z"),
    ],
)
def test_list_in_another_form_is_an_error_with_the_right_form(tmp_path, cell):
    right = "'film,good'" if isinstance(cell, str) else r'\["film", "good"\]'
    with pytest.raises(
        ValueError, match=rf"line 2, column 0: .* such as {right}; got"
    ):
        _discover(tmp_path, ["a,b", cell], "multi_label")
    with pytest.raises(ValueError, match=rf" such as {right}; got"):
        _set("a", "x", problem_type="multi_label").parse(cell)


def test_labels_that_are_listed_may_have_any_name():
    names = ("x;y", "1 0", "[deleted]")
    for problem_type in ("single_label", "multi_label"):
        label_set = _set(*names, problem_type=problem_type)
        for name in names:
            assert label_set.encode(label_set.parse(name)) == label_set.encode(
                name if problem_type == "single_label" else (name,)
            )


def test_numbers_with_commas_are_labels_unless_one_is_repeated(tmp_path):
    found = _discover(tmp_path, ["0,3", "1", "3, 12,0"], "multi_label")
    assert found == ("0", "1", "3", "12")
    assert _discover(tmp_path, ["a,b", "b,b"], "multi_label") == ("a", "b")


@pytest.mark.parametrize("cell", ["['x']", '["x"]', "[0, 1]"])
def test_list_in_a_text_is_no_class(tmp_path, cell):
    with pytest.raises(ValueError, match=r"line 2.*not a list.*--label_names"):
        _discover(tmp_path, ["a", cell])


_SPELLINGS = ("café", "cafe\u0301", "café\u200b", "\ufeffcafé\u00a0", " café")


def test_spellings_of_a_name_are_one_label(tmp_path):
    found = _discover(tmp_path, [*_SPELLINGS, "Café", "b"])
    assert found == ("Café", "b", "café")
    label_set = _set("b", _SPELLINGS[1])
    for spelling in _SPELLINGS:
        assert label_set.parse(spelling) == _SPELLINGS[1]
    # A name with one spelling keeps it.
    assert _discover(tmp_path, ["b", _SPELLINGS[1]])[1] == _SPELLINGS[1]
    with pytest.raises(ValueError, match="all of them different"):
        _set(*_SPELLINGS[:2])
    with pytest.raises(ValueError, match="unknown label 'B'"):
        label_set.parse("B")


def test_column_that_has_no_labels_is_a_warning(tmp_path, caplog):
    _discover(tmp_path, [f"id{n}" for n in range(30)])
    assert "each of the 30 rows has a label of its own" in caplog.text
    caplog.clear()
    _discover(tmp_path, ["x / y", "z"], "multi_label")
    assert "no row has several labels, such as 'x / y,z'" in caplog.text
    caplog.clear()
    _discover(tmp_path, ["x,y", "z"], "multi_label")
    assert "several labels" not in caplog.text


def test_a_header_that_is_read_as_a_row_is_named(tmp_path, caplog):
    path = tmp_path / "train.csv"
    path.write_text("text,label\na,1\nb,0\nc,1\nd,0\n")
    layout = datasets.Layout(text_a=0, label=1, has_header=False)
    message = "train.csv, line 1: no other row has the label 'label'. If"
    datasets.discover_labels(str(path), layout, "single_label")
    assert message in caplog.text
    caplog.clear()
    path.write_text("a,1\nb,0\nc,1\n")
    datasets.discover_labels(str(path), layout, "single_label")
    assert "no other row" not in caplog.text


def _discover(folder, values, problem_type="single_label", **options):
    path = folder / "d.jsonl"
    toy_files.write_json_lines(path, ([v] for v in values))
    layout = datasets.Layout(text_a=0, label=0)
    return datasets.discover_labels(
        str(path), layout, problem_type, **options
    ).names


def test_found_labels_are_sorted_whole_numbers_by_value(tmp_path):
    values = ("10", "9", "b", "-1", "a", "9")
    found = _discover(tmp_path, values)
    assert found == ("-1", "9", "10", "a", "b")
    assert _discover(tmp_path, values[::-1]) == found
    # Numbers and truth values of JSON are names.
    assert _discover(tmp_path, [1, 0, True]) == ("0", "1", "true")
    # Several labels are found one by one.
    found = _discover(tmp_path, ["b,a", "", "c"], "multi_label")
    assert found == ("a", "b", "c")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"names": ("a", "a")}, "all of them different"),
        ({"names": ("a",)}, "single_label needs at least 2"),
        ({"problem_type": "multi_label"}, "multi_label needs at least 1"),
    ],
)
def test_names_must_fit_the_problem(values, message):
    with pytest.raises(ValueError, match=message):
        class_labels.LabelSet(**values)


def test_there_is_a_positive_number_for_each_label_in_their_order():
    def parse(given, label_set):
        return class_labels.class_weights(given, label_set, [])

    assert parse(["1", "2.5", "1e1"], _CLASSES) == (1.0, 2.5, 10.0)
    for wrong in ("1 2", "1 x 2", "1 0 2", "1 inf 2"):
        with pytest.raises(ValueError, match="'no', 'so-so', 'yes'; got '1'"):
            parse(wrong.split(), _CLASSES)


def _balanced(found, label_set):
    return class_labels.class_weights(["balanced"], label_set, found)


def test_balanced_weights_are_those_of_scikit_learn():
    found = ["no"] * 5 + ["yes"] * 2 + ["so-so"]
    expected = class_weight.compute_class_weight(
        "balanced", classes=np.array(_CLASSES.names), y=np.array(found)
    )
    got = _balanced(found, _CLASSES)
    np.testing.assert_allclose(got, expected)
    np.testing.assert_allclose(got, [8 / 15, 8 / 3, 8 / 6])
    # Of several labels, those that hold weigh as much as those that do not.
    several = [("p",), ("p", "q"), (), ("p",)]
    assert _balanced(several, _SEVERAL) == (1 / 3, 3.0)


@pytest.mark.parametrize(
    ("found", "label_set", "message"),
    [
        (["no", "yes"], _CLASSES, "0 of 2 to train on have 'so-so'"),
        (["no", "so-so"], _CLASSES, "0 of 2 to train on have 'yes'"),
        ([("p",), ("p", "q")], _SEVERAL, "2 of 2 to train on have 'p'"),
    ],
)
def test_a_label_without_examples_has_no_balance(found, label_set, message):
    with pytest.raises(ValueError, match=message):
        _balanced(found, label_set)
