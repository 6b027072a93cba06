"""Records: written, parsed and checked by one schema."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from bert.records import reading, schema, tfrecords
from bert.tasks import task
from bert.tasks.classification import text_examples
from tests.support import locations

_FEATURES = (
    schema.Feature(name="ids", shape=(3,)),
    schema.Feature(name="choices", shape=(2, 3)),
    schema.Feature(name="weights", shape=(2,), dtype="float32"),
    schema.Feature(name="label", shape=()),
)


def _example(number=0):
    return {
        "ids": [number, -1, 2**40],
        "choices": np.arange(6).reshape(2, 3),
        "weights": [0.5, 1],
        "label": number,
    }


def _serialized(folder, number=0, features=_FEATURES):
    path = str(folder / "example")
    tfrecords.write_rows(path, [_example(number)], features)
    return tfrecords.RecordFiles([path]).read([0])


@pytest.mark.parametrize(
    ("problem_type", "shape", "dtype"),
    [
        ("single_label", (1,), "int64"),
        ("multi_label", (3,), "float32"),
        ("regression", (1,), "float32"),
    ],
)
def test_labels_have_the_form_of_their_problem(problem_type, shape, dtype):
    label = task.label_feature(problem_type, 3)
    assert label == schema.Feature(name="label_ids", shape=shape, dtype=dtype)
    assert schema.labeled_features(8, label)[-1] == label
    features = text_examples.record_features(8, label)
    assert [f.name for f in features[-2:]] == ["label_ids", "is_real_example"]


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_unmasked_records_mark_words_if_they_are_masked_whole(
    do_whole_word_mask,
):
    features = schema.unmasked_features(
        8, do_whole_word_mask=do_whole_word_mask
    )
    names = [feature.name for feature in features]
    assert ("word_starts" in names) == do_whole_word_mask
    assert names[-1] == "next_sentence_labels"


def test_pretraining_features_are_the_release_s():
    features = schema.pretraining_features(128, 20)
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
    tfrecords.write_rows(path, examples, _FEATURES)
    serialized = tfrecords.RecordFiles([path]).read([2, 0])
    graph = tf.function(lambda batch: reading.parse(batch, _FEATURES))
    np.testing.assert_array_equal(graph(serialized)["label"], [2, 0])
    parsed = reading.parse(tf.constant(serialized), _FEATURES)
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
    features = schema.pretraining_features(64, 10)
    with np.load(locations.GOLDEN / "pretraining/seq64.npz") as file:
        arrays = dict(file)
    examples = (
        {name: array[number] for name, array in arrays.items()}
        for number in range(527)
    )
    path = str(tmp_path / "x")
    tfrecords.write_rows(path, examples, features)
    written = tf.data.TFRecordDataset(path).batch(600).get_single_element()
    for name, value in reading.parse(written, features).items():
        np.testing.assert_array_equal(value, arrays[name])


def test_a_length_other_than_written_does_not_parse(tmp_path):
    wrong = [dataclasses.replace(_FEATURES[0], shape=(4,))]
    with pytest.raises(tf.errors.InvalidArgumentError, match="ids"):
        reading.parse(tf.constant(_serialized(tmp_path)), wrong)
