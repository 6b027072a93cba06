"""Records of labelled texts are made once; the files beside a model."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from tests import toy_data
from training import (
    checkpointing,
    model_folder,
    prediction,
    records,
    task_data,
)

_FEATURES = records.classification_features(4, "single_label", 3)
_TEXT = {
    "max_seq_length": 4,
    "vocab_size": 30,
    "vocab_sha256": "a",
    "do_lower_case": True,
}


def _row(first, label=0, length=3):
    ids = [first] * length + [0] * (4 - length)
    mask = [1] * length + [0] * (4 - length)
    return {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": [0] * 4,
        "label_ids": [label],
        "is_real_example": [1],
    }


def _make(path, examples, text=None, **made_from):
    return toy_data.make(
        path, "classification", _FEATURES, text or _TEXT, made_from, examples
    )


def _never():
    raise AssertionError("the records were to be used again")


def test_records_are_used_again(tmp_path):
    examples = [[_row(5, 1)], [_row(6, 2), _row(7, 2)], [_row(8)]]
    made = _make(tmp_path / "r", lambda: examples, data="x")
    again = _make(tmp_path / "r", _never, data="x")
    for each in (made, again):
        assert each.rows_per_example.tolist() == [1, 2, 1]
        assert each.label_ids[:, 0].tolist() == [1, 2, 0]
        assert len(each.source.files) == 4


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ({}, "y"),
        ({"vocab_sha256": "b"}, "x"),
        ({"do_lower_case": False}, "x"),
    ],
)
def test_records_of_something_else_are_made_again(tmp_path, text, data):
    _make(tmp_path / "r", lambda: [[_row(5)]], data="x")
    examples = [[_row(6)], [_row(7)]]
    made = _make(tmp_path / "r", lambda: examples, {**_TEXT, **text}, data=data)
    assert len(made.source.files) == 2


def test_a_broken_off_making_leaves_no_sidecar(tmp_path):
    _make(tmp_path / "r", lambda: [[_row(5)]], data="x")

    def broken():
        yield [_row(6)]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _make(tmp_path / "r", broken, data="y")
    assert records.read_metadata(str(tmp_path / "r.tf_record")) is None


def test_records_without_a_sidecar_are_made_again(tmp_path):
    _make(tmp_path / "r", lambda: [[_row(5)]], data="x")
    os.remove(records.metadata_path(str(tmp_path / "r.tf_record")))
    made = _make(tmp_path / "r", lambda: [[_row(6)], [_row(7)]], data="x")
    assert len(made.source.files) == 2


def test_longest_records_come_first(tmp_path):
    rows = [[_row(5, length=2)], [_row(6, length=4)], [_row(7, length=3)]]
    made = _make(tmp_path / "r", lambda: rows)
    source, order = prediction.longest_first(made.source)
    assert order.tolist() == [1, 2, 0]
    assert source.length_step == 1


@pytest.mark.parametrize(
    ("longest", "step"), [(16, 1), (17, 2), (55, 4), (128, 8), (384, 24)]
)
def test_records_by_length_have_as_many_lengths_as_are_compiled(longest, step):
    @dataclasses.dataclass(frozen=True)
    class _Records:
        length_step: int = 0

        def lengths(self):
            return np.array([3, longest, 7])

    source, order = prediction.longest_first(_Records(), 16)
    assert source.length_step == step
    # Where one graph serves all lengths, batches are cut to any.
    assert prediction.longest_first(_Records())[0].length_step == 1
    assert order.tolist() == [1, 2, 0]


def test_values_come_in_file_order(tmp_path):
    made = _make(tmp_path / "r", lambda: [[_row(i)] for i in range(1, 20)])
    feature = records.Feature(name="input_ids", shape=(4,))
    ids = task_data.values(made.source.files, feature)
    np.testing.assert_array_equal(ids[:, 0], np.arange(1, 20))


_MODEL = model_folder.Description(
    config={"hidden_size": 8},
    vocab_file="",
    text={"vocab_sha256": "a", "do_lower_case": True},
    labels={"problem_type": "single_label", "labels": ["no", "yes"]},
)


@pytest.fixture
def model(tmp_path):
    """The folder of a model, and its description."""
    (tmp_path / "words.txt").write_bytes(b"[UNK]\r\nword\n")
    described = dataclasses.replace(
        _MODEL, vocab_file=str(tmp_path / "words.txt")
    )
    folder = str(tmp_path / "model")
    model_folder.validate_output_dir(folder, described)
    weights = {"w": tf.Variable(1.0)}
    checkpointing.save(folder, 1, weights, state={}, keep=1)
    return folder, described


def test_a_model_has_beside_it_what_it_takes_to_use_it(model):
    folder, described = model
    model_folder.validate_output_dir(folder, described)
    with open(f"{folder}/vocab.txt", "rb") as file:
        assert file.read() == b"[UNK]\r\nword\n"
    again = dataclasses.replace(described, vocab_file=f"{folder}/vocab.txt")
    model_folder.validate_output_dir(folder, again)
    assert os.path.getsize(f"{folder}/vocab.txt") == 12


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("config", {"hidden_size": 9}, "hidden_size is 8 there and 9 here"),
        ("text", {"do_lower_case": False}, "do_lower_case was True"),
        ("labels", {"labels": ["a"]}, "other labels"),
    ],
)
def test_a_folder_of_another_model_is_refused(model, field, value, message):
    folder, described = model
    with pytest.raises(ValueError, match=message):
        model_folder.validate_output_dir(
            folder, dataclasses.replace(described, **{field: value})
        )


def test_labels_may_differ_where_nothing_says_so(tmp_path):
    assert not model_folder.answers_differ(str(tmp_path), _MODEL.labels)


def test_finds_the_folder_of_a_checkpoint(model):
    folder, _ = model
    for name in (
        folder,
        f"{folder}/model.ckpt-1",
        f"{folder}/model.ckpt-1.index",
    ):
        assert model_folder.of_checkpoint(name) == folder
