"""The user's own files."""

import json

import pytest

from files import run_files
from tasks.classification import labels, sentence_flags
from tests.tasks.classification import reading


def _data(tmp_path, **options):
    options = {"text_a_column": "text", "label_column": "label"} | options
    return sentence_flags.SentenceOptions(
        task_name="custom", data_dir=str(tmp_path), **options
    )


def _write(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")


def _read(data, label_set, name, with_labels=True):
    info = sentence_flags.custom_dataset(data, label_set)
    splits = {"train": info.train, "dev": info.dev[0], "test": info.test[0]}
    return reading.read_split(
        info, splits[name], data.data_dir, with_labels=with_labels
    )


def _found(data, tmp_path, is_training=True):
    (tmp_path / "model").mkdir(exist_ok=True)
    (tmp_path / "model/model.ckpt-7.index").touch()
    saved = str(tmp_path / "model" / run_files.LABELS)
    return sentence_flags.find_labels(data, saved, is_training=is_training)


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
        "Test.jsonl",
        "".join(
            json.dumps(dict(zip(keys, reversed(row), strict=True))) + "\n"
            for row in rows
        ),
    )
    data = _data(tmp_path, text_b_column="second")
    label_set = _found(data, tmp_path)
    assert label_set.names == ("neg", "pos")
    for name in "train", "dev", "test":
        examples = _read(data, label_set, name)
        assert [(e.text_a, e.text_b, e.label) for e in examples] == rows


@pytest.mark.parametrize(
    ("has_header", "texts"), [(None, ["a", "b", "c"]), (True, ["b", "c"])]
)
def test_columns_by_number_need_no_header(tmp_path, has_header, texts):
    _write(tmp_path, "train.tsv", "1\ta\n0\tb\n1\tc\n")
    data = _data(
        tmp_path,
        text_a_column="-1",
        label_column="0",
        has_header=has_header,
    )
    label_set = _found(data, tmp_path)
    examples = _read(data, label_set, "train")
    assert [example.text_a for example in examples] == texts


def test_scores_need_no_labels_and_several_have_a_cell_or_a_list(tmp_path):
    _write(tmp_path, "train.csv", "text,label\na,0.5\nb,-2\n")
    data = _data(tmp_path, problem_type="regression")
    examples = _read(data, _found(data, tmp_path), "train")
    assert [example.label for example in examples] == [0.5, -2.0]
    (tmp_path / "train.csv").unlink()
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx;y\nb\t\n")
    _write(tmp_path, "dev.jsonl", '{"text": "c", "label": ["y"]}\n')
    data = _data(tmp_path, problem_type="multi_label", label_separator=";")
    label_set = _found(data, tmp_path)
    train = _read(data, label_set, "train")
    assert [example.label for example in train] == [("x", "y"), ()]
    assert _read(data, label_set, "dev")[0].label == ("y",)
    custom_metrics = sentence_flags.custom_dataset(data, label_set).metrics
    assert custom_metrics[0] == "micro_f1"


def test_saved_labels_serve_without_the_training_file(tmp_path):
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx\nb\ty\n")
    data = _data(tmp_path)
    found = _found(data, tmp_path)
    found.save(str(tmp_path / "model" / run_files.LABELS))
    (tmp_path / "train.tsv").unlink()
    _write(tmp_path, "test.tsv", "text\nc\n")
    assert _found(data, tmp_path, is_training=False) == found
    data = _data(tmp_path, label_column="")
    assert _read(data, found, "test", with_labels=False)[0].label == "x"


@pytest.mark.parametrize("name", ["Train.csv", "custom/train.csv"])
def test_the_training_file_is_found_as_the_others_are(tmp_path, name):
    (tmp_path / "custom").mkdir()
    _write(tmp_path, name, "text,label\na,x\nb,y\n")
    assert _found(_data(tmp_path), tmp_path).names == ("x", "y")
    (tmp_path / name).unlink()
    message = r"No train\.tsv or .*train\.csv.* in "
    with pytest.raises(FileNotFoundError, match=message):
        _found(_data(tmp_path), tmp_path)


@pytest.mark.parametrize("problem_type", ["regression", "multi_label"])
def test_a_model_that_only_answers_knows_its_problem_type(
    tmp_path, problem_type
):
    names = () if problem_type == "regression" else ("x", "y")
    saved = labels.LabelSet(problem_type=problem_type, names=names)
    saved.save(str(tmp_path / "model" / run_files.LABELS))
    _write(tmp_path, "test.tsv", "text\nc\n")
    found = _found(_data(tmp_path), tmp_path, is_training=False)
    assert found == saved
    # Also where the labels are given, but not another one.
    data = _data(tmp_path, label_names=names)
    assert _found(data, tmp_path, is_training=False) == saved
    data = _data(tmp_path, problem_type="single_label")
    with pytest.raises(ValueError, match=f"for {problem_type} .*got single"):
        _found(data, tmp_path, is_training=False)
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx\nb\ty\n")
    with pytest.raises(ValueError, match=f"trained for {problem_type}"):
        _found(_data(tmp_path), tmp_path)


def test_thresholds_stay_until_the_model_is_trained(tmp_path):
    names, problem_type = ("x", "y"), "multi_label"
    saved = labels.LabelSet(
        problem_type=problem_type, names=names, thresholds=(0.1, 0.8)
    )
    saved.save(str(tmp_path / "model" / run_files.LABELS))
    for given in ((), names):
        data = _data(tmp_path, problem_type=problem_type, label_names=given)
        assert _found(data, tmp_path, is_training=False) == saved
    assert not _found(data, tmp_path).thresholds


def test_the_first_label_is_no_header_where_columns_have_names(
    tmp_path, caplog
):
    rows = "a\tx\nb\ty\nc\ty\n"
    _write(tmp_path, "train.tsv", f"text\tlabel\n{rows}")
    _found(_data(tmp_path), tmp_path)
    _write(tmp_path, "train.tsv", f"text\tx\n{rows}")
    data = _data(tmp_path, label_column="x")
    _read(data, _found(data, tmp_path), "train")
    (tmp_path / "train.tsv").unlink()
    _write(
        tmp_path,
        "train.jsonl",
        "".join(f'{{"text": "a", "label": "{n}"}}\n' for n in "xyy"),
    )
    _found(_data(tmp_path), tmp_path)
    assert "header" not in caplog.text
    (tmp_path / "train.jsonl").unlink()
    _write(tmp_path, "train.tsv", rows)
    _found(_data(tmp_path, text_a_column="0", label_column="1"), tmp_path)
    assert "is it the header?" in caplog.text


def test_labels_other_than_those_of_the_model_are_an_error(tmp_path):
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx\nb\ty\n")
    data = _data(tmp_path)
    _found(data, tmp_path).save(str(tmp_path / "model" / run_files.LABELS))
    assert _found(data, tmp_path).names == ("x", "y")
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx\nb\tz\n")
    with pytest.raises(ValueError, match=r"trained for .*'y'.* got .*'z'"):
        _found(data, tmp_path)
    with pytest.raises(ValueError, match=r"trained for .* got .* 'y', 'x'\."):
        _found(_data(tmp_path, label_names=("y", "x")), tmp_path)
    # As after a run that ended before its first checkpoint.
    saved = tmp_path / "other" / run_files.LABELS
    labels.LabelSet(names=("x", "y")).save(str(saved))
    found = sentence_flags.find_labels(data, str(saved), is_training=True)
    assert found.names == ("x", "z")
    (saved.parent / "trial-1").mkdir()
    (saved.parent / "trial-1/model.ckpt-7.index").touch()
    with pytest.raises(ValueError, match=r"trained for .*'y'.* got .*'z'"):
        sentence_flags.find_labels(data, str(saved), is_training=True)
    with pytest.raises(ValueError, match="got multi_label"):
        _found(
            _data(tmp_path, problem_type="multi_label"),
            tmp_path,
            is_training=False,
        )


def test_listed_labels_may_look_like_fractions_and_keep_their_order(tmp_path):
    _write(tmp_path, "train.tsv", "text\tlabel\na\t2.1\nb\t1.0\n")
    data = _data(tmp_path, label_names=("2.1", "1.0"))
    label_set = _found(data, tmp_path)
    assert label_set.names == ("2.1", "1.0")
    assert _read(data, label_set, "train")[1].label == "1.0"


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("text\tlabel\na\t0.5\nb\t1\n", "line 2, .*'label'.*regression"),
        ("text\tlabel\na\tx\nb\ty\tz\n", "line 3: the row has 3 column"),
        ("text\tlabel\na\tx\nb\n", "line 3: the row has 1 column"),
    ],
)
def test_bad_training_file_is_named(tmp_path, train, message):
    _write(tmp_path, "train.tsv", train)
    with pytest.raises(ValueError, match=rf"train\.tsv.*{message}"):
        _found(_data(tmp_path), tmp_path)


def test_absent_files_and_two_for_one_part_are_named(tmp_path):
    data = _data(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"train\.tsv or train\.csv"):
        _found(data, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"labels\.json: without train"):
        _found(data, tmp_path, is_training=False)
    _write(tmp_path, "train.tsv", "text\tlabel\na\tx\nb\ty\n")
    with pytest.raises(FileNotFoundError, match=r"No dev\.tsv or dev\.csv or"):
        _read(data, _found(data, tmp_path), "dev")
    _write(tmp_path, "train.csv", "text,label\na,x\nb,y\n")
    with pytest.raises(ValueError, match=r"Expected one file for 'train'"):
        _found(data, tmp_path)


def test_description_must_make_sense(tmp_path):
    for options, message in (
        ({"text_a_column": ""}, "text_a_column must name the column"),
        ({"has_header": False}, "need a header"),
    ):
        with pytest.raises(ValueError, match=message):
            _found(_data(tmp_path, **options), tmp_path)
