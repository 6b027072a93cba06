"""Files of tasks, examples read from described columns, and splits."""

import collections
import dataclasses
import json
import re

import numpy as np
import pytest

from bert.tasks import task
from bert.tasks.classification import class_labels, datasets, glue
from tests.support import toy_files

_BINARY = class_labels.LabelSet(names=("0", "1"))


def _write(tmp_path, text, name="d.tsv"):
    return toy_files.write(tmp_path / name, text)


def _read(
    path, label_set=_BINARY, with_labels=True, is_complete=False, **layout
):
    layout = datasets.Layout(**layout)
    return datasets.read_examples(
        path,
        layout,
        label_set,
        with_labels=with_labels,
        is_complete=is_complete,
    )


def test_columns_become_texts_and_label(tmp_path):
    path = _write(tmp_path, "n\tx\ty\tl\n7\ta\tb\t1\n9\tc\t\t0\n")
    examples = _read(path, text_a="x", text_b="y", label="l")
    assert [vars(example) for example in examples] == [
        {"text_a": "a", "text_b": "b", "label": "1", "row": 0},
        {"text_a": "c", "text_b": "", "label": "0", "row": 1},
    ]


def test_label_column_is_left_alone_where_no_label_is_needed(tmp_path):
    path = _write(tmp_path, "x\tl\na\tunheard of\n")
    (example,) = _read(path, text_a="x", label="l", with_labels=False)
    assert example.label == "0"
    path = _write(tmp_path, "x\na\n")
    (example,) = _read(path, text_a="x", label="l", with_labels=False)
    assert example.label == "0"


def test_only_the_rows_asked_for_are_read(tmp_path):
    path = _write(tmp_path, "g\tx\nen\ta\nzh\tb\nen\tc\n")
    examples = _read(path, text_a=1, row_filter=("g", "en"), with_labels=False)
    assert [e.text_a for e in examples] == ["a", "c"]
    assert [e.row for e in examples] == [0, 2]
    with pytest.raises(ValueError, match="has no example with 'el'"):
        _read(path, text_a=1, row_filter=("g", "el"), with_labels=False)


def test_short_rows_are_left_out_where_known(tmp_path):
    # A row with more columns is read.
    text = "x\ty\tl\na\tb\t1\nbroken\n\ttail\t\n\nc\td\t0\te\n"
    path = _write(tmp_path, text.replace("\ttail\t", "tail\t"))
    layout = {"text_a": "x", "text_b": "y", "label": "l"}
    examples = _read(path, skip_short_rows=True, **layout)
    assert [example.text_a for example in examples] == ["a", "c"]
    with pytest.raises(ValueError, match=r"line 3, column 'y': missing"):
        _read(path, **layout)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x\tl\na\t1\nb\t2\n", r"line 3, column 'l': unknown label '2'"),
        ("x\tl\na\t1\nb\t0.5\n", "unknown label '0.5'; allowed: '0', '1'"),
        ("x\tm\na\t1\n", "line 1: 0 columns named 'l'"),
        ("x\tl\n", "the file has no example"),
    ],
)
def test_bad_row_is_named(tmp_path, text, message):
    path = _write(tmp_path, text)
    with pytest.raises(ValueError, match=rf"d\.tsv.*{message}"):
        _read(path, text_a="x", label="l")


def test_rows_without_a_label_are_left_out_and_counted(tmp_path, caplog):
    path = _write(tmp_path, "x\tl\na\t1\nb\t-\nc\t0\nd\t\ne\tnan\n")
    for _ in range(2):  # Counted once.
        examples = _read(path, text_a="x", label="l")
        assert [(e.text_a, e.row) for e in examples] == [("a", 0), ("c", 2)]
    assert caplog.messages == [
        f"{path}: 3 of 5 rows have no label and are left out: the label is "
        "empty or one of --missing_labels='-,?,nan,null,n/a,#n/a,<na>'"
    ]
    # All rows are predicted.
    assert len(_read(path, text_a="x", label="l", with_labels=False)) == 5
    caplog.clear()
    path = _write(tmp_path, "x\tl\na\t1\nb\t-\n", "test.tsv")
    examples = _read(path, text_a="x", label="l", is_complete=True)
    assert [example.label for example in examples] == ["1", None]
    assert (
        f"{path}: 1 of 2 rows have no label and are predicted without a score:"
        in caplog.text
    )
    path = _write(tmp_path, "x\tl\na\t?\n", "e.tsv")
    with pytest.raises(ValueError, match="has no example with a label"):
        _read(path, text_a="x", label="l")
    # Scores have the same rule.
    scores = class_labels.LabelSet(problem_type=task.REGRESSION)
    path = _write(tmp_path, "x\tl\na\t1.5\nb\t\nc\tnan\n", "f.tsv")
    (example,) = _read(path, scores, text_a="x", label="l")
    assert (example.text_a, example.label) == ("a", 1.5)


def test_files_without_labels_or_of_other_values_are_errors(tmp_path):
    path = _write(tmp_path, "x\na\n")
    with pytest.raises(ValueError, match=r"d\.tsv: labels are required here"):
        _read(path, text_a="x")
    path = _write(tmp_path, '{"x": 3, "l": 1}\n', "d.jsonl")
    with pytest.raises(ValueError, match=r"line 1, column 'x': .* got 3"):
        _read(path, text_a="x", label="l")


def _write_mnli(folder, *names):
    row = "\t".join("01234567") + "\ta b\tc\tneutral\n"
    for name in names:
        (folder / name).write_text("header\n" + row)


def test_optional_files_alone_may_be_missing(tmp_path):
    info = glue.find_dataset("MNLI")
    _write_mnli(tmp_path, "test_matched.tsv", "test_mismatched.tsv")
    files = datasets.find_files(info, task.PREDICT, str(tmp_path))
    assert [file.split.suffix for file in files] == ["", "_mismatched"]
    info = glue.find_dataset("RTE")
    with pytest.raises(FileNotFoundError, match=r"No dev\.tsv of RTE"):
        datasets.find_files(info, task.EVAL, str(tmp_path))


def test_the_file_of_the_release_is_never_left_out(tmp_path, caplog):
    info = glue.find_dataset("MNLI")
    _write_mnli(tmp_path, "dev_matched.tsv")
    (file,) = datasets.find_files(info, task.EVAL, str(tmp_path))
    assert file.split.suffix == ""
    assert caplog.messages == [
        f"No dev_mismatched.tsv of MNLI in {tmp_path}, which is left out"
    ]
    # Also that which has answers for the server.
    with pytest.raises(
        FileNotFoundError, match=r"No test_matched\.tsv of MNLI"
    ):
        datasets.find_files(info, task.PREDICT, str(tmp_path))


def test_the_folder_beside_a_remote_one_is_that_of_its_parent(tmp_path):
    (tmp_path / "MNLI").mkdir()
    _write(tmp_path, "", "AX.tsv")
    for end in ("", "/", "//"):
        folder = f"file://{tmp_path}/MNLI{end}"  # Through TensorFlow.
        path = datasets.find_file(folder, "MNLI", ["../AX.tsv"])
        assert path == f"file://{tmp_path}/AX.tsv"


def test_origin_changes_with_data(tmp_path):
    info = glue.find_dataset("MNLI")
    _write_mnli(tmp_path, "train.tsv")

    def origin():
        (file,) = datasets.find_files(info, task.TRAIN, str(tmp_path))
        return file.made_from()

    first = origin()
    assert origin() == first
    with open(tmp_path / "train.tsv", "a") as file:
        file.write("\n")
    assert origin() != first


_FOUND = ["a"] * 50 + ["b"] * 30 + ["c"] * 20


def _counts(rows, found=_FOUND):
    return collections.Counter(found[row] for row in rows)


def test_origin_changes_with_each_part_that_examples_depend_on(tmp_path):
    layout = datasets.Layout(text_a=0, label=1)
    file = datasets.TextFile(
        split=datasets.SplitInfo(files=("d.tsv",), layout=layout),
        path=_write(tmp_path, "a\t0\n"),
        label_set=_BINARY,
    )
    changed = dataclasses.replace(layout, text_a=1, label=0)
    origins = [
        dataclasses.replace(file, **changes).made_from()
        for changes in (
            {},
            {"label_set": class_labels.LabelSet(names=("1", "0"))},
            {"split": dataclasses.replace(file.split, layout=changed)},
            {"dev_fraction": 0.2},
            {"dev_fraction": 0.5},
            {"dev_fraction": 0.5, "is_held_out": True},
        )
    ]
    assert len({json.dumps(origin) for origin in origins}) == len(origins)


def test_a_file_in_the_folder_itself_comes_before_one_in_its_own(tmp_path):
    (tmp_path / "X").mkdir()
    inside = _write(tmp_path, "", "X/d.tsv")

    def find(*names):
        return datasets.find_file(str(tmp_path), "X", names)

    assert find("d.tsv") == inside
    outside = _write(tmp_path, "", "e.tsv")
    # The folder counts more than the preference of names.
    assert find("d.tsv", "e.tsv") == outside
    _write(tmp_path, "", "d.tsv")
    assert find("d.tsv", "e.tsv") == str(tmp_path / "d.tsv")


def test_each_label_is_held_out_in_the_same_share():
    rows = datasets.held_out(_FOUND, 0.2)
    assert _counts(rows) == {"a": 10, "b": 6, "c": 4}
    assert rows == datasets.held_out(_FOUND, 0.2)
    # Rows of a label are drawn, not its first ones.
    assert set(range(10)) - rows
    with pytest.raises(ValueError, match=r"0\.1 of 4 rows are 0"):
        datasets.held_out(["a"] * 4, 0.1)


def test_scores_and_several_labels_are_stratified_too():
    scores = list(np.random.default_rng(1).normal(size=200))
    held_out = [scores[row] for row in datasets.held_out(scores, 0.1)]
    assert np.mean(held_out) == pytest.approx(np.mean(scores), abs=0.05)
    several = [("x",), ("y", "x"), ("x", "y"), ()] * 10
    rows = datasets.held_out(several, 0.25)
    pairs = [set(several[row]) == {"x", "y"} for row in rows]
    assert (len(rows), sum(pairs)) == (10, 5)
    # The order of the labels of a row means nothing.
    in_order = [tuple(sorted(labels_of_row)) for labels_of_row in several]
    assert datasets.held_out(in_order, 0.25) == rows


def test_held_out_rows_and_the_others_make_up_the_file(tmp_path):
    rows = [f"{n}\t1\t2\tq{n}\tr\t{n % 2}\n" for n in range(10)]
    # The release drops the short row.
    text = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\nshort\t1\n"
    _write(tmp_path, text + "".join(rows), "train.tsv")
    info = glue.find_dataset("QQP")
    (dev,), (train,), (file,) = (
        datasets.find_files(info, split, str(tmp_path), dev_fraction)
        for split, dev_fraction in (
            (task.EVAL, 0.3),
            (task.TRAIN, 0.3),
            (task.TRAIN, 0),
        )
    )
    held_out = dev.examples()
    assert len(held_out) == 3
    assert [e.text_a for e in held_out] == [f"q{e.row - 1}" for e in held_out]
    others = train.examples()
    assert sorted(e.text_a for e in held_out + others) == [
        f"q{n}" for n in range(10)
    ]
    origins = [each.made_from() for each in (file, dev, train)]
    assert len({str(origin) for origin in origins}) == 3


def test_a_file_to_predict_has_no_held_out_rows(tmp_path):
    _write(tmp_path, "sentence\n" + "text\n" * 10, "test.tsv")
    info = glue.find_dataset("SST-2")
    (test,) = datasets.find_files(info, task.PREDICT, str(tmp_path), 0.3)
    assert len(test.examples()) == 10
    (whole,) = datasets.find_files(info, task.PREDICT, str(tmp_path))
    assert test.made_from() == whole.made_from()


@pytest.mark.parametrize(
    ("text", "layout", "found"),
    [
        ("x\tl\na\t1\nb\t-\n", {"text_a": "x", "label": "l"}, ["1", None]),
        ("x\tl\na\t\nb\t-\n", {"text_a": "x", "label": "l"}, ["0", "0"]),
        ("x\tl\na\t1\nb\t7\n", {"text_a": "x", "label": "l"}, ["0", "0"]),
        ("x\na\nb\n", {"text_a": "x", "label": "l"}, ["0", "0"]),
        ("a\t1\nb\t0\n", {"text_a": 0, "label": -1}, ["1", "0"]),
        ("1\n0\n", {"text_a": 0, "label": -1}, ["0", "0"]),
        ("a\nb\n", {"text_a": 0, "label": 1}, ["0", "0"]),
    ],
)
def test_labels_of_a_test_file_are_read_if_all_are_known(
    tmp_path, caplog, text, layout, found
):
    layout = datasets.Layout(**layout, has_header="x" in text, same_width=True)
    split = datasets.SplitInfo(files=("test.tsv",), layout=layout)
    _write(tmp_path, text, "test.tsv")
    info = datasets.DatasetInfo(
        name="toy",
        label_set=_BINARY,
        metrics=(),
        splits={task.PREDICT: (split,)},
    )
    (test,) = datasets.find_files(info, task.PREDICT, str(tmp_path))
    assert [example.label for example in test.examples()] == found
    assert test.has_labels == (found != ["0", "0"])
    warning = "line 3, column 'l': unknown label '7'; .*without a test score"
    assert bool(re.search(warning, caplog.text)) == ("7" in text)


def test_held_out_rows_without_a_training_file_name_the_flag(tmp_path):
    _write(tmp_path, "sentence\tlabel\na\t1\n", "dev.tsv")
    info = glue.find_dataset("SST-2")
    message = (
        r"No train\.tsv of SST-2 .*--dev_fraction=0 evaluates the dev file"
    )
    with pytest.raises(FileNotFoundError, match=message):
        datasets.find_files(info, task.EVAL, str(tmp_path), 0.3)
    assert datasets.find_files(info, task.EVAL, str(tmp_path))


def test_balanced_weights_count_only_the_rows_to_train_on(tmp_path):
    rows = "".join(f"text\t{n % 4 == 0:d}\n" for n in range(20))
    _write(tmp_path, f"sentence\tlabel\n{rows}", "train.tsv")
    info = glue.find_dataset("SST-2")
    (train,) = datasets.find_files(info, task.TRAIN, str(tmp_path), 0.25)
    found = [example.label for example in train.examples()]
    counts = _counts(range(15), found)
    weights = class_labels.class_weights(["balanced"], info.label_set, found)
    assert weights == (15 / 2 / counts["0"], 15 / 2 / counts["1"])
