"""Tests of the records of tasks: made once, and again after any change."""

import os

import numpy as np
import pytest

from tests import toy_data
from training import prediction, record_files, records, task_data

_TEXT = {
    "max_seq_length": 5,
    "vocab_size": 9,
    "vocab_sha256": "00",
    "do_lower_case": True,
}
_MADE_FROM = {"data_sha256": ["aa"], "doc_stride": 3}


def _windows():
    """Yields three questions: two windows, none, one."""
    window = {
        "unique_ids": [1000000000],
        "input_ids": [1, 2, 3, 4, 0],
        "input_mask": [1, 1, 1, 1, 0],
        "segment_ids": [0, 0, 1, 1, 0],
        "start_positions": [2],
        "end_positions": [3],
        "is_impossible": [0],
    }
    yield [window, window]
    yield []
    yield [window]


def _make(path, examples=_windows, text=_TEXT, made_from=_MADE_FROM):
    return toy_data.make(
        path,
        "squad training",
        records.squad_features(text["max_seq_length"], is_training=True),
        text,
        made_from,
        examples,
    )


def _never():
    raise AssertionError("The windows are there already.")


def test_windows_are_made_once(tmp_path):
    path = tmp_path / "train"
    made = _make(path)
    again = _make(path, _never)
    for windows in (made, again):
        assert windows.rows_per_example.tolist() == [2, 0, 1]
        batch = windows.source.parse(windows.source.files.read([0, 2]))
        assert batch["input_ids"].numpy().tolist() == [[1, 2, 3, 4, 0]] * 2
        assert batch["end_positions"].numpy().tolist() == [[3], [3]]
    metadata = records.read_metadata(f"{path}.tf_record")
    assert metadata.kind == "squad training"
    assert metadata.num_records == 3


def test_windows_are_made_again_when_anything_has_changed(tmp_path):
    path = tmp_path / "train"
    _make(path)

    def one_question():
        yield next(_windows())

    for text, made_from in (
        ({**_TEXT, "do_lower_case": False}, _MADE_FROM),
        ({**_TEXT, "vocab_sha256": "01"}, _MADE_FROM),
        (_TEXT, {**_MADE_FROM, "doc_stride": 2}),
        (_TEXT, {**_MADE_FROM, "data_sha256": ["aa", "bb"]}),
    ):
        made = _make(path, one_question, text, made_from)
        assert np.array_equal(made.rows_per_example, [2])
        _make(path)


def test_a_file_that_was_cut_is_made_again(tmp_path):
    path = tmp_path / "train"
    _make(path)
    kept = record_files.RecordFiles([f"{path}.tf_record"]).read([0])
    path.with_suffix(".tf_record").write_bytes(
        b"".join(map(record_files.frame, kept))
    )
    assert len(_make(path).source.files) == 3


_FEATURES = records.classification_features(4, "single_label", 3)
_LABELLED_TEXT = {**_TEXT, "max_seq_length": 4, "vocab_size": 30}


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


def _make_labeled(path, examples, changes=(), **made_from):
    text = {**_LABELLED_TEXT, **dict(changes)}
    return toy_data.make(
        path, "classification", _FEATURES, text, made_from, examples
    )


def test_records_are_reused(tmp_path):
    examples = [[_row(5, 1)], [_row(6, 2), _row(7, 2)], [_row(8)]]
    made = _make_labeled(tmp_path / "r", lambda: examples, data="x")
    again = _make_labeled(tmp_path / "r", _never, data="x")
    for each in (made, again):
        assert each.rows_per_example.tolist() == [1, 2, 1]
        assert each.label_ids[:, 0].tolist() == [1, 2, 0]
        assert len(each.source.files) == 4


@pytest.mark.parametrize(
    ("changes", "data"),
    [
        ({}, "y"),
        ({"vocab_sha256": "b"}, "x"),
        ({"do_lower_case": False}, "x"),
    ],
)
def test_records_of_other_text_or_data_are_made_again(tmp_path, changes, data):
    _make_labeled(tmp_path / "r", lambda: [[_row(5)]], data="x")
    examples = [[_row(6)], [_row(7)]]
    made = _make_labeled(tmp_path / "r", lambda: examples, changes, data=data)
    assert len(made.source.files) == 2


def test_an_interrupted_writing_leaves_no_sidecar(tmp_path):
    _make_labeled(tmp_path / "r", lambda: [[_row(5)]], data="x")

    def broken():
        yield [_row(6)]
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _make_labeled(tmp_path / "r", broken, data="y")
    assert records.read_metadata(str(tmp_path / "r.tf_record")) is None


def test_records_without_a_sidecar_are_made_again(tmp_path):
    _make_labeled(tmp_path / "r", lambda: [[_row(5)]], data="x")
    os.remove(records.metadata_path(str(tmp_path / "r.tf_record")))
    made = _make_labeled(
        tmp_path / "r", lambda: [[_row(6)], [_row(7)]], data="x"
    )
    assert len(made.source.files) == 2


def test_longest_records_come_first(tmp_path):
    rows = [[_row(5, length=2)], [_row(6, length=4)], [_row(7, length=3)]]
    made = _make_labeled(tmp_path / "r", lambda: rows)
    source, order = prediction.longest_first(made.source)
    assert order.tolist() == [1, 2, 0]
    assert source.length_step == 1


def test_values_come_in_file_order(tmp_path):
    made = _make_labeled(
        tmp_path / "r", lambda: [[_row(i)] for i in range(1, 20)]
    )
    feature = records.Feature(name="input_ids", shape=(4,))
    ids = task_data.values(made.source.files, feature)
    np.testing.assert_array_equal(ids[:, 0], np.arange(1, 20))
