"""The user's own files."""

import gzip
import json
import lzma
import shlex
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import parquet

from bert.tasks.classification import class_labels, dataset_choice, options
from tests.bert.tasks.classification import reading


def _data(tmp_path, **flags):
    flags = {"text_a_column": "text", "label_column": "label"} | flags
    return options.SentenceOptions(
        task_name="custom", data_dir=str(tmp_path), **flags
    )


def _write(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")


def _read(data, label_set, name, with_labels=True):
    info = dataset_choice.find_dataset(data, label_set)
    split = {"dev": "eval", "test": "predict"}.get(name, name)
    return reading.read_split(
        info, info.splits[split][0], data.data_dir, with_labels=with_labels
    )


def _found(data, known=None):
    return dataset_choice.find_dataset(data, known).label_set


def test_three_formats_give_the_same_examples(tmp_path):
    rows = [("a, b", "x", "pos"), ('"c"', "", "neg")]
    _write(
        tmp_path,
        "train.tsv",
        "text\tsecond\tlabel\n" + "".join("\t".join(r) + "\n" for r in rows),
    )
    _write(
        tmp_path,
        "dev.csv",
        'text,second,label\n"a, b",x,pos\n"""c""",,neg\n',
    )
    keys = ("label", "second", "text")
    _write(
        tmp_path,
        "test.jsonl",
        "".join(
            json.dumps(dict(zip(keys, reversed(row), strict=True))) + "\n"
            for row in rows
        ),
    )
    data = _data(tmp_path, text_b_column="second")
    label_set = _found(data)
    assert label_set.names == ("neg", "pos")
    for name in "train", "dev", "test":
        examples = _read(data, label_set, name)
        assert [(e.text_a, e.text_b, e.label) for e in examples] == rows


def test_columns_by_number_need_no_header(tmp_path):
    _write(tmp_path, "train.tsv", "1\ta\n0\tb\n1\tc\n")
    data = _data(tmp_path, text_a_column="-1", label_column="0")
    label_set = _found(data)
    examples = _read(data, label_set, "train")
    assert [example.text_a for example in examples] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "columns",
    [
        {"text_a_column": "0", "label_column": "label"},
        {"text_a_column": "text", "label_column": "1"},
    ],
)
def test_one_column_by_name_needs_a_header(tmp_path, columns):
    _write(tmp_path, "train.tsv", "text\tlabel\na\tpos\nb\tneg\n")
    data = _data(tmp_path, **columns)
    examples = _read(data, _found(data), "train")
    assert [(e.text_a, e.label) for e in examples] == [
        ("a", "pos"),
        ("b", "neg"),
    ]


def test_scores_need_no_labels_and_several_have_a_cell_or_a_list(tmp_path):
    _write(tmp_path, "train.csv", "text,label\na,0.5\nb,-2\n")
    data = _data(tmp_path, problem_type="regression")
    examples = _read(data, _found(data), "train")
    assert [example.label for example in examples] == [0.5, -2.0]
    (tmp_path / "train.csv").unlink()
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx,y\nb\t\n")
    _write(tmp_path, "dev.jsonl", '{"text": "c", "label": ["y"]}\n')
    data = _data(tmp_path, problem_type="multi_label")
    label_set = _found(data)
    train = _read(data, label_set, "train")
    assert [example.label for example in train] == [("x", "y"), ()]
    assert _read(data, label_set, "dev")[0].label == ("y",)
    custom_metrics = dataset_choice.find_dataset(data, label_set).metrics
    assert custom_metrics[0] == "average_precision"


@pytest.mark.parametrize("problem_type", ["regression", "multi_label"])
def test_a_trained_model_knows_its_labels(tmp_path, problem_type):
    names = () if problem_type == "regression" else ("x", "y")
    known = class_labels.LabelSet(problem_type=problem_type, names=names)
    _write(tmp_path, "test.tsv", "text\nc\n")
    data = _data(tmp_path, label_column="")
    assert _found(data, known) == known
    assert _read(data, known, "test", with_labels=False)[0].text_a == "c"
    # Also where they are given.
    assert _found(_data(tmp_path, label_names=names), known) == known
    # Without them they are those of the training file.
    _write(tmp_path, "train.tsv", "text\tlabel\na\ty\nb\tx\n")
    assert _found(_data(tmp_path)).names == ("x", "y")


def test_flags_come_before_the_labels_of_a_trained_model(tmp_path):
    known = class_labels.LabelSet(names=("x", "y"))
    assert _found(_data(tmp_path, label_names=("y", "x")), known).names == (
        *("y", "x"),
    )
    several = class_labels.LabelSet(
        problem_type="multi_label", names=("x", "y")
    )
    data = _data(tmp_path, problem_type="multi_label")
    assert _found(data, known) == several


@pytest.mark.parametrize("name", ["train.csv", "custom/train.csv"])
def test_the_training_file_is_found_as_the_others_are(tmp_path, name):
    (tmp_path / "custom").mkdir()
    _write(tmp_path, name, "text,label\na,x\nb,y\n")
    assert _found(_data(tmp_path)).names == ("x", "y")
    (tmp_path / name).unlink()
    message = r"No train\.csv in "
    with pytest.raises(FileNotFoundError, match=message):
        _found(_data(tmp_path))


def test_listed_labels_may_look_like_fractions_and_keep_their_order(tmp_path):
    _write(tmp_path, "train.tsv", "text\tlabel\na\t2.1\nb\t1.0\n")
    data = _data(tmp_path, label_names=("2.1", "1.0"))
    label_set = _found(data)
    assert label_set.names == ("2.1", "1.0")
    assert _read(data, label_set, "train")[1].label == "1.0"


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("text\tlabel\na\t0.5\nb\t1\n", "label 0.5 is a fraction.*regression"),
        ("text\tlabel\na\tx\nb\ty\tz\n", "line 3: the row has 3 column"),
        ("text\tlabel\na\tx\nb\n", "line 3: the row has 1 column"),
    ],
)
def test_bad_training_file_is_named(tmp_path, train, message):
    _write(tmp_path, "train.tsv", train)
    with pytest.raises(ValueError, match=rf"train\.tsv.*{message}"):
        _found(_data(tmp_path))


def test_absent_files_and_two_for_one_part_are_named(tmp_path):
    data = _data(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"No train\.csv in .*\.gz"):
        _found(data)
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx\nb\ty\n")
    with pytest.raises(
        FileNotFoundError, match=r"No dev\.csv .*dev_fraction=0\.1"
    ):
        _read(data, _found(data), "dev")
    _write(tmp_path, "train.csv", "text,label\na,x\nb,y\n")
    with pytest.raises(ValueError, match=r"Expected one file for 'train'"):
        _found(data)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("validation.csv", "mv {}/validation.csv {}/train.csv"),
        ("my table.csv.gz", "mv '{}/my table.csv.gz' {}/train.csv.gz"),
        ("train.txt", r"mv {}/train.txt {}/train.tsv"),
    ],
)
def test_file_of_another_name_is_named_with_the_cure(tmp_path, name, cure):
    _write(tmp_path, name, "")
    _write(tmp_path, "README.md", "")
    _write(tmp_path, "test.csv", "")
    message = rf"The folder has {name}\. .*{cure.replace('{}', str(tmp_path))}"
    with pytest.raises(FileNotFoundError, match=message) as error:
        _found(_data(tmp_path))
    assert "python -m tools.split_table" in str(error.value)


def test_json_array_is_an_error_with_the_command_that_converts_it(tmp_path):
    rows = [{"text": "é", "label": label} for label in ("x", "y")]
    _write(tmp_path, "train.json", json.dumps(rows))
    message = "mv .*train.json .*train.jsonl.* is converted by: python "
    with pytest.raises(FileNotFoundError, match=message) as error:
        _found(_data(tmp_path))
    command = str(error.value).partition("converted by: python ")[2]
    subprocess.run([sys.executable, *shlex.split(command)], check=True)
    assert _found(_data(tmp_path)).names == ("x", "y")


def test_a_file_as_the_folder_is_an_error_with_the_cure(tmp_path):
    _write(tmp_path, "reviews.csv", "text,label\na,x\n")
    path = tmp_path / "reviews.csv"
    with pytest.raises(
        NotADirectoryError, match=rf"is a file.*--input_file={path} "
    ):
        _found(_data(path))


@pytest.mark.parametrize(
    ("ending", "compress"),
    [(".csv.gz", gzip.compress), (".csv.xz", lzma.compress)],
)
def test_compressed_files_and_parquet_are_read(tmp_path, ending, compress):
    (tmp_path / f"train{ending}").write_bytes(
        compress(b'text,label\n"one\rtwo",x\nb,y\n')
    )
    table = {"text": ["c", "d"], "label": ["y", None], "other": [1, 2]}
    parquet.write_table(pyarrow.table(table), tmp_path / "dev.parquet")
    data = _data(tmp_path)
    label_set = _found(data)
    assert label_set.names == ("x", "y")
    train = _read(data, label_set, "train")
    assert [example.text_a for example in train] == ["one\rtwo", "b"]
    assert [e.label for e in _read(data, label_set, "dev")] == ["y"]


@pytest.mark.parametrize(
    ("problem_type", "metrics"),
    [
        (None, ("accuracy", "macro_f1")),
        (
            "multi_label",
            ("average_precision", "micro_f1", "macro_f1", "exact_match"),
        ),
        ("regression", ("pearson", "spearman", "mean_absolute_error")),
    ],
)
def test_the_first_metric_of_the_user_s_own_files_selects_models(
    tmp_path, problem_type, metrics
):
    _write(tmp_path, "train.tsv", "text\tlabel\na\t0\nb\t1\n")
    data = _data(tmp_path, problem_type=problem_type)
    assert dataset_choice.find_dataset(data).metrics == metrics
