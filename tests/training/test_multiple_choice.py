"""Loss and records of choices, by hand."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tests import toy_data
from training import objectives, records

_LOGITS = np.array([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0], [3.0, -1.0, 1.0]], "f4")
_TEXT = {
    "max_seq_length": 4,
    "vocab_size": 9,
    "vocab_sha256": "x",
    "do_lower_case": True,
}


def _objective():
    return objectives.Classification(
        lambda **_: {"logits": _LOGITS}, objectives.SINGLE_LABEL
    )


def _make(path, examples, **origin):
    return toy_data.make(
        path,
        "multiple choice",
        records.choice_features(4, 3),
        _TEXT,
        origin,
        lambda: ([example] for example in examples()),
    )


def _features(**more):
    return {
        "input_ids": tf.zeros([3, 3, 4], tf.int32),
        "input_mask": tf.zeros([3, 3, 4], tf.int32),
        "segment_ids": tf.zeros([3, 3, 4], tf.int32),
        "label_ids": tf.constant([[1], [2], [1]]),
        **more,
    }


def _expected_losses():
    log_probs = _LOGITS - np.log(np.exp(_LOGITS).sum(1, keepdims=True))
    return -log_probs[np.arange(3), [1, 2, 1]]


def test_loss_is_the_mean_over_the_examples_of_the_whole_batch():
    objective, features = _objective(), _features()
    denominators = objective.denominators(features)
    assert float(denominators["loss"]) == 3.0
    # As on the first of two replicas.
    outcome = objective.outcome(features, {"loss": tf.constant(6.0)}, None)
    np.testing.assert_allclose(
        outcome.losses["loss"], _expected_losses().sum() / 6, rtol=1e-6
    )
    correct, weight = outcome.metrics["accuracy"]
    assert (float(correct), float(weight)) == (1.0, 3.0)


def test_rows_that_fill_a_batch_count_nowhere():
    features = _features(example_weights=tf.constant([1.0, 1.0, 0.0]))
    objective = _objective()
    denominators = objective.denominators(features)
    outcome = objective.outcome(features, denominators, None)
    np.testing.assert_allclose(
        outcome.losses["loss"], _expected_losses()[:2].mean(), rtol=1e-6
    )
    assert [float(x) for x in outcome.metrics["accuracy"]] == [1.0, 2.0]


def test_predictions_are_probabilities_over_the_choices():
    scores = _objective().predictions(_features())
    np.testing.assert_allclose(np.sum(scores["outputs"], 1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(scores["outputs"][1], [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(scores["losses"], _expected_losses(), rtol=1e-6)


def test_records_are_made_once(tmp_path):
    made = types.SimpleNamespace(count=0)

    def examples():
        made.count += 1
        for label in (2, 0):
            yield {
                "input_ids": np.full((3, 4), label + 1),
                "input_mask": np.ones((3, 4), int),
                "segment_ids": np.zeros((3, 4), int),
                "label_ids": [label],
            }

    def read(**origin):
        return _make(tmp_path / "train", examples, **origin)

    first = read(data_sha256="a")
    assert first.label_ids[:, 0].tolist() == [2, 0]
    assert first.rows_per_example.tolist() == [1, 1]
    batch = first.source.parse(tf.constant(first.source.files.read([1])))
    np.testing.assert_array_equal(batch["input_ids"], np.ones((1, 3, 4)))
    read(data_sha256="a")
    assert made.count == 1
    read(data_sha256="b")
    assert made.count == 2


def test_ids_beyond_the_vocabulary_are_refused(tmp_path):
    example = {
        "input_ids": np.full((3, 4), 9),
        "input_mask": np.ones((3, 4), int),
        "segment_ids": np.zeros((3, 4), int),
        "label_ids": [0],
    }
    data = _make(tmp_path / "x", lambda: [example])
    with pytest.raises(tf.errors.InvalidArgumentError, match="vocab_size, 9"):
        data.source.parse(tf.constant(data.source.files.read([0])))
