"""Record files of a task's data sets."""

import os

import pytest
import tensorflow as tf

from bert.records import framing, sidecars, tfrecords
from bert.tasks import task
from bert.tasks.squad import window_features
from bert.training import options as training_options
from bert.training import task_records, workers
from vocab import tokenization

_FEATURES = window_features.record_features(5, is_training=True)
_MADE_FROM = {"data_sha256": "aa", "doc_stride": 3}


class _Toy(task.Task):
    """A task without a network."""

    kind, metric = "toy", "f1"
    make_objective = data_sets = decode = metrics = write_answers = None


def _toy(folder, entries=("[UNK]", *"abcdefgh"), **changes):
    vocab = folder / "words.txt"
    vocab.write_text("".join(f"{entry}\n" for entry in entries))
    options = training_options.SequenceOptions(
        output_dir=str(folder),
        bert_config_file="config.json",
        vocab_file=str(vocab),
        do_train=True,
        max_seq_length=5,
        **changes,
    )
    return _Toy(options, tokenization.FullTokenizer(str(vocab)))


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


def _make(
    folder,
    examples=_windows,
    made_from=_MADE_FROM,
    type_vocab_size=2,
    **changes,
):
    data_set = task.DataSet(
        split=task.TRAIN,
        name="train",
        kind="squad training",
        features=_FEATURES,
        made_from=made_from,
        examples=examples,
    )
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    communicator = workers.Communicator(strategy)
    return task_records.make(
        _toy(folder, **changes), data_set, communicator, type_vocab_size
    )


def _never():
    raise AssertionError("The windows are there already.")


def test_records_are_made_once(tmp_path):
    made = _make(tmp_path)
    again = _make(tmp_path, _never)
    for windows in (made, again):
        assert windows.rows_per_example.tolist() == [2, 0, 1]
        batch = windows.source.read([0, 2])
        assert batch["input_ids"].tolist() == [[1, 2, 3, 4, 0]] * 2
        assert batch["end_positions"].tolist() == [[3], [3]]
    metadata = sidecars.read_metadata(str(tmp_path / "train.tf_record"))
    assert metadata.kind == "squad training"
    assert (metadata.num_records, metadata.vocab_size) == (3, 9)
    assert (metadata.max_seq_length, metadata.do_lower_case) == (5, True)
    entries = ["[UNK]", *"abcdefgh"]
    assert metadata.vocab_sha256 == tokenization.vocab_sha256(entries)


@pytest.mark.parametrize(
    "changes",
    [
        {"do_lower_case": False},
        {"strip_accents": False},
        {"entries": ("[UNK]", *"bacdefgh")},
        {"made_from": {**_MADE_FROM, "doc_stride": 2}},
        {"made_from": {**_MADE_FROM, "data_sha256": "bb"}},
    ],
)
def test_records_are_made_again_when_anything_has_changed(tmp_path, changes):
    _make(tmp_path)
    one_question = [next(_windows())]
    made = _make(tmp_path, lambda: one_question, **changes)
    assert made.rows_per_example.tolist() == [2]


def test_damaged_records_are_made_again(tmp_path, caplog):
    path = tmp_path / "train.tf_record"
    _make(tmp_path)
    whole = path.read_bytes()
    kept = tfrecords.RecordFiles([str(path)]).read([0])
    # A record is missing, the end is cut off, the lengths are damaged.
    fewer = b"".join(map(framing.frame, kept))
    for content in (fewer, whole[:-5], b"\xff" * len(whole)):
        path.write_bytes(content)
        assert len(_make(tmp_path).source.files) == 3
        assert path.read_bytes() == whole
    assert "is damaged, and is made again" in caplog.text
    sidecar = sidecars.metadata_path(str(path))
    with open(sidecar, "w") as file:
        file.write("{")
    assert len(_make(tmp_path).source.files) == 3
    os.remove(sidecar)
    one_question = [next(_windows())]
    assert len(_make(tmp_path, lambda: one_question).source.files) == 2


def test_records_that_a_file_lost_at_its_end_are_made_again(tmp_path):
    # Each example has one record, so the sidecar has no list of their numbers.
    windows = [next(_windows())[:1]] * 3
    path = tmp_path / "train.tf_record"
    _make(tmp_path, lambda: windows)
    kept = tfrecords.RecordFiles([str(path)]).read([0, 1])
    path.write_bytes(b"".join(map(framing.frame, kept)))
    assert len(_make(tmp_path, lambda: windows).source.files) == 3


def test_an_interrupted_writing_leaves_no_sidecar(tmp_path):
    _make(tmp_path)

    def broken():
        yield next(_windows())
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _make(tmp_path, broken, made_from={})
    assert sidecars.read_metadata(str(tmp_path / "train.tf_record")) is None


def test_examples_without_a_record_are_refused_in_training(tmp_path):
    with pytest.raises(ValueError, match="none of 2 examples has a record"):
        _make(tmp_path, lambda: [[], []])


def test_a_pair_is_refused_before_the_training_of_one_type_of_segment(tmp_path):
    with pytest.raises(ValueError, match=r"segment_ids .*type_vocab_size"):
        _make(tmp_path, type_vocab_size=1)
