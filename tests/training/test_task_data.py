"""Tests of the records of tasks: made once, and again after any change."""

import os

import numpy as np
import pytest

from tests import toy_data
from training import record_files, records, task_data, workers

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


@pytest.mark.parametrize("ending", [".tf_record", ".tf_record.meta.json"])
def test_damaged_records_of_a_task_are_made_again(tmp_path, caplog, ending):
    path = tmp_path / "train"
    _make(path)
    damaged = tmp_path / f"train{ending}"
    damaged.write_bytes(damaged.read_bytes()[:-9])
    made = _make(path)
    assert made.rows_per_example.tolist() == [2, 0, 1]
    assert "train.tf_record is made again: " in caplog.text


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


def test_a_file_that_was_cut_or_lost_its_sidecar_is_made_again(tmp_path):
    path = tmp_path / "train"
    _make(path)
    kept = record_files.RecordFiles([f"{path}.tf_record"]).read([0])
    path.with_suffix(".tf_record").write_bytes(
        b"".join(map(record_files.frame, kept))
    )
    assert len(_make(path).source.files) == 3
    os.remove(records.metadata_path(f"{path}.tf_record"))
    assert len(_make(path, lambda: [next(_windows())]).source.files) == 2


def test_an_interrupted_writing_leaves_no_sidecar(tmp_path):
    path = tmp_path / "train"
    _make(path)

    def broken():
        yield next(_windows())
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _make(path, broken, made_from={})
    assert records.read_metadata(f"{path}.tf_record") is None


def test_values_and_labels_come_in_file_order(tmp_path):
    examples = [
        {
            "input_ids": [number, 0, 0, 0, 0],
            "input_mask": [1, 0, 0, 0, 0],
            "segment_ids": [0] * 5,
            "label_ids": [number % 3],
            "is_real_example": [1],
        }
        for number in range(1, 9)
    ]
    made = toy_data.make(
        tmp_path / "r",
        "classification",
        records.classification_features(5, "single_label", 3),
        _TEXT,
        {},
        lambda: [[example] for example in examples],
    )
    ids = made.source.values("input_ids")
    np.testing.assert_array_equal(ids[:, 0], np.arange(1, 9))
    np.testing.assert_array_equal(made.label_ids[:, 0], np.arange(1, 9) % 3)


class _Others:
    """A worker's communicator; the chief holds the records or not."""

    def __init__(self, *, chief_holds):
        self._chief_holds, self.numbers = chief_holds, []

    def all_reduce_max(self, number):
        self.numbers.append(number)
        return int(not self._chief_holds)

    def barrier(self):
        self.numbers.append("barrier")


@pytest.mark.parametrize("chief_holds", [True, False])
def test_the_chief_decides_whether_workers_take_part(
    tmp_path, monkeypatch, chief_holds
):
    path = tmp_path / "train"
    made = _make(path)
    metadata = records.read_metadata(f"{path}.tf_record")
    turns = []

    def find(take_part=None):
        others = _Others(chief_holds=chief_holds)
        files, counts = task_data.make_or_reuse(
            f"{path}.tf_record", metadata, _never, others, take_part
        )
        assert counts.tolist() == [2, 0, 1]
        assert len(files) == len(made.source.files)
        return others.numbers

    monkeypatch.setattr(workers, "is_chief", lambda: False)
    waits = [0] if chief_holds else [0, "barrier"]
    assert find(lambda: turns.append("part")) == waits
    assert turns == ([] if chief_holds else ["part"])
