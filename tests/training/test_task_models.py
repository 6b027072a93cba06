"""The model of a task: its records, its steps and its memory."""

import os
import types
import unittest.mock
import weakref

import keras
import pytest

from modeling import config
from tasks import task
from training import flags as training_flags
from training import (
    record_files,
    record_frames,
    records,
    sidecars,
    task_models,
    workers,
)

_TOKENIZER = types.SimpleNamespace(
    vocab={"[UNK]": 0, "a": 1}, vocab_size=9, do_lower_case=True
)
_FEATURES = records.squad_features(5, is_training=True)
_MADE_FROM = {"data_sha256": "aa", "doc_stride": 3}


class _Toy(task.Task):
    """A task of which the network is one layer."""

    kind, metric = "toy", "f1"
    make_objective = data_sets = decode = metrics = write_answers = None

    @property
    def description(self):
        return {}


def _options(folder, **changes):
    values = {
        "output_dir": str(folder),
        "bert_config_file": "config.json",
        "vocab_file": str(folder / "words.txt"),
        "do_train": True,
        "max_seq_length": 5,
        **changes,
    }
    return training_flags.SequenceOptions(**values)


def _model(folder, make_objective=None, vocab=_TOKENIZER.vocab, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "words.txt").write_text("[UNK]\na\n")
    tokenizer = types.SimpleNamespace(vocab=vocab, vocab_size=9)
    toy = _Toy(_options(folder, **changes), tokenizer)
    toy.make_objective = make_objective
    return task_models.TaskModel(toy, config.BertConfig(vocab_size=2))


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


def _make(folder, examples=_windows, made_from=_MADE_FROM, **changes):
    data_set = task.DataSet(
        split=task.TRAIN,
        name="train",
        kind="squad training",
        features=_FEATURES,
        made_from=made_from,
        examples=examples,
    )
    return _model(folder, **changes).make_data(data_set)


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
    assert metadata.vocab_sha256 == sidecars.vocab_sha256(["[UNK]", "a"])


@pytest.mark.parametrize(
    "changes",
    [
        {"do_lower_case": False},
        {"vocab": {"[UNK]": 0, "b": 1}},
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
    kept = record_files.RecordFiles([str(path)]).read([0])
    # A record is missing, the end is cut off, the lengths are damaged.
    fewer = b"".join(map(record_frames.frame, kept))
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


def test_an_interrupted_writing_leaves_no_sidecar(tmp_path):
    _make(tmp_path)

    def broken():
        yield next(_windows())
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        _make(tmp_path, broken, made_from={})
    assert sidecars.read_metadata(str(tmp_path / "train.tf_record")) is None


def test_other_workers_wait_for_the_records_of_the_chief(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "is_chief", lambda: False)
    with pytest.raises(FileNotFoundError):
        _make(tmp_path)
    monkeypatch.undo()
    _make(tmp_path)
    monkeypatch.setattr(workers, "is_chief", lambda: False)
    assert len(_make(tmp_path, _never).source.files) == 3


@pytest.mark.parametrize(
    ("args", "steps", "warmup", "per_epoch"),
    [
        # 87599 questions of SQuAD 1.1 with the flags of the README.
        ((87599, 12, 2.0, 0.1), 14599, 1459, 7300),
        ((10, 4, 3.0, 0.1), 7, 0, 3),
        ((10, 4, 0.5, 1.0), 1, 1, 3),
        ((3, 4, 2.0, 0.5), 1, 0, 1),
    ],
)
def test_steps_are_counted_as_released(
    tmp_path, args, steps, warmup, per_epoch
):
    def plan(num_examples, batch_size, num_epochs, warmup_proportion):
        flags = {
            "train_batch_size": batch_size,
            "num_train_epochs": num_epochs,
            "warmup_proportion": warmup_proportion,
            "eval_every_epoch": True,
        }
        files = unittest.mock.MagicMock()
        files.__len__.return_value = num_examples
        train = types.SimpleNamespace(
            data_set=types.SimpleNamespace(counts_examples=False),
            source=types.SimpleNamespace(files=files),
        )
        options = _options(tmp_path, **flags)
        return _model(tmp_path, **flags)._plan(options, train, {})

    found = plan(*args)
    assert (found.num_train_steps, found.num_warmup_steps) == (steps, warmup)
    assert found.eval_every_steps == per_epoch
    with pytest.raises(ValueError, match="3 examples in batches of 8 for 2 ep"):
        plan(3, 8, 2.0, 0.1)


def test_trials_hold_one_model_in_memory(tmp_path):
    made = []

    def make_objective(_):
        layers = [keras.Input((1,)), keras.layers.Dense(1)]
        network = keras.Sequential(layers)
        made.append(weakref.ref(network))
        return types.SimpleNamespace(model=network, predictions=None)

    model = _model(tmp_path, make_objective)
    for _ in range(3):
        model.start(_options(tmp_path))
        assert [reference() is not None for reference in made] == [
            True,
            *[False] * (len(made) - 1),
        ]
