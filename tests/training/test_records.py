"""Records: written, parsed and checked by one schema; their sidecars."""

import dataclasses
import hashlib
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from tests import toy_pretraining as toy
from training import record_files, records

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
_FEATURES = (
    records.Feature(name="ids", shape=(3,)),
    records.Feature(name="choices", shape=(2, 3)),
    records.Feature(name="weights", shape=(2,), dtype="float32"),
    records.Feature(name="label", shape=()),
)
_METADATA = toy.metadata_of(flags={"random_seed": 12345, "input_file": "a.txt"})


def _example(number=0):
    return {
        "ids": [number, -1, 2**40],
        "choices": np.arange(6).reshape(2, 3),
        "weights": [0.5, 1],
        "label": number,
    }


def _serialized(folder, number=0, features=_FEATURES):
    path = str(folder / "example")
    records.write_records(path, [_example(number)], features)
    return record_files.RecordFiles([path]).read([0])


def test_pretraining_features_are_the_release_s():
    features = records.pretraining_features(128, 20)
    assert [(f.name, f.shape, f.dtype) for f in features] == [
        ("input_ids", (128,), "int64"),
        ("input_mask", (128,), "int64"),
        ("segment_ids", (128,), "int64"),
        ("masked_lm_positions", (20,), "int64"),
        ("masked_lm_ids", (20,), "int64"),
        ("masked_lm_weights", (20,), "float32"),
        ("next_sentence_labels", (1,), "int64"),
    ]


def test_a_record_is_an_example_and_always_the_same(tmp_path):
    serialized = _serialized(tmp_path)
    message = tf.train.Example.FromString(serialized[0])
    feature = message.features.feature
    assert sorted(feature) == ["choices", "ids", "label", "weights"]
    assert feature["ids"].int64_list.value == [0, -1, 2**40]
    assert feature["choices"].int64_list.value == [0, 1, 2, 3, 4, 5]
    assert feature["weights"].float_list.value == [0.5, 1.0]
    assert feature["label"].int64_list.value == [0]
    assert _serialized(tmp_path) == serialized
    assert _serialized(tmp_path, features=_FEATURES[::-1]) == serialized


def test_parse_gives_back_what_was_written(tmp_path):
    path = str(tmp_path / "x")
    examples = [_example(number) for number in range(3)]
    for example in examples:
        example["ids"][2] = 5
    records.write_records(path, examples, _FEATURES)
    serialized = record_files.RecordFiles([path]).read([2, 0])
    graph = tf.function(lambda batch: records.parse(batch, _FEATURES))
    np.testing.assert_array_equal(graph(serialized)["label"], [2, 0])
    parsed = records.parse(tf.constant(serialized), _FEATURES)
    assert {name: value.dtype for name, value in parsed.items()} == {
        "ids": tf.int32,
        "choices": tf.int32,
        "weights": tf.float32,
        "label": tf.int32,
    }
    np.testing.assert_array_equal(parsed["ids"], [[2, -1, 5], [0, -1, 5]])
    np.testing.assert_array_equal(
        parsed["choices"], [[[0, 1, 2], [3, 4, 5]]] * 2
    )
    np.testing.assert_array_equal(parsed["weights"], [[0.5, 1.0]] * 2)
    np.testing.assert_array_equal(parsed["label"], [2, 0])


def test_golden_records_go_through_unchanged(tmp_path):
    features = records.pretraining_features(64, 10)
    with np.load(_GOLDEN / "pretraining/seq64.npz") as file:
        arrays = dict(file)
    examples = (
        {name: array[number] for name, array in arrays.items()}
        for number in range(527)
    )
    path = str(tmp_path / "x")
    records.write_records(path, examples, features)
    written = tf.data.TFRecordDataset(path).batch(600).get_single_element()
    for name, value in records.parse(written, features).items():
        np.testing.assert_array_equal(value, arrays[name])


def test_a_length_other_than_written_does_not_parse(tmp_path):
    wrong = [dataclasses.replace(_FEATURES[0], shape=(4,))]
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids"):
        records.parse(tf.constant(_serialized(tmp_path)), wrong)


def test_a_failure_leaves_the_earlier_file(tmp_path):
    path = tmp_path / "a"
    records.write_records(str(path), [_example()], _FEATURES)
    before = path.read_bytes()

    def examples():
        yield _example(1)
        raise KeyError("the reader failed")

    with pytest.raises(KeyError, match="the reader failed"):
        records.write_records(str(path), examples(), _FEATURES)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_vocab_hash_is_that_of_a_plain_file():
    path = _GOLDEN / "inputs/vocab.txt"
    tokens = path.read_text("utf-8").splitlines()
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert records.vocab_sha256(tokens) == expected
    assert records.vocab_sha256(tokens[::-1]) != expected


def test_metadata_round_trip(tmp_path):
    path = str(tmp_path / "x")
    assert records.read_metadata(path) is None
    records.write_metadata(path, _METADATA)
    assert records.read_metadata(path) == _METADATA
    # What has a default may be left out.
    without = dataclasses.replace(
        _METADATA, max_predictions_per_seq=None, flags={}
    )
    values = dataclasses.asdict(without)
    del values["flags"], values["max_predictions_per_seq"]
    (tmp_path / "x.meta.json").write_text(json.dumps(values))
    assert records.read_metadata(path) == without


def _changed(**changes):
    return json.dumps(dataclasses.asdict(_METADATA) | changes)


@pytest.mark.parametrize("text", ["{", "[]", "{}", _changed(color="red")])
def test_a_broken_sidecar_is_named(tmp_path, text):
    (tmp_path / "x.meta.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.meta\.json does not describe"):
        records.read_metadata(str(tmp_path / "x"))


_MADE_WITH = toy.metadata_of(
    num_records=0,
    flags={"random_seed": 40, "masking": (80.0, 10.0, 10.0)},
)


def _store(*record_paths, is_sharded=True):
    return records.PretrainingRecords(
        record_paths=record_paths, made_with=_MADE_WITH, is_sharded=is_sharded
    )


def _batches(num_records=3):
    return [{"x": np.arange(num_records)[:, np.newaxis]}]


def test_names_of_shards_and_all_that_may_be_replaced(tmp_path):
    store = _store("a/x.rec", "b/y")
    assert store.paths_of(7) == ["a/x-00007.rec", "b/y-00007"]
    path = str(tmp_path / "x.rec")
    (tmp_path / "x-00007.rec").touch()
    assert {os.path.basename(path) for path in _store(path).outputs()} == {
        *("x-00000.rec", "x-00000.rec.meta.json"),
        *("x-00007.rec", "x-00007.rec.meta.json"),
    }
    store = _store(path, is_sharded=False)
    assert store.paths_of(0) == [path]
    assert store.outputs() == [path, f"{path}.meta.json"]


def test_holds_what_it_wrote(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    store = _store(*paths)
    assert not store.holds(2, "text")
    assert store.write(2, _batches(), "text") == {
        f"{paths[0]}-00002": 2,
        f"{paths[1]}-00002": 1,
    }
    assert store.holds(2, "text")
    assert not store.holds(2, "other text")
    assert not store.holds(1, "text")
    metadata = records.read_metadata(f"{paths[0]}-00002")
    assert metadata.flags["random_seed"] == 42
    assert metadata.text_sha256 == "text"
    assert metadata.num_records == 2
    os.remove(f"{paths[1]}-00002")
    assert not store.holds(2, "text")


def test_a_shard_with_a_damaged_sidecar_is_not_held(tmp_path, caplog):
    store = _store(str(tmp_path / "a"))
    store.write(0, _batches(), "text")
    (tmp_path / "a-00000.meta.json").write_text("{")
    assert not store.holds(0, "text")
    assert "Creating shard 0 again: " in caplog.text
    assert "a-00000.meta.json" in caplog.text
    store.write(0, _batches(), "text")
    assert store.holds(0, "text")


def test_a_failure_leaves_no_sidecar_for_other_records(tmp_path):
    store = _store(str(tmp_path / "a"))
    store.write(0, _batches(), "text")

    def failing():
        yield from _batches(5)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.write(0, failing(), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["a-00000"]
    assert len(record_files.RecordFiles([str(tmp_path / "a-00000")])) == 3
    assert not store.holds(0, "text")
