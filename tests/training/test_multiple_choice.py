"""Loss and records of choices, by hand."""

import numpy as np
import tensorflow as tf

from training import objectives

_LOGITS = np.array([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0], [3.0, -1.0, 1.0]], "f4")


def _objective():
    return objectives.Classification(
        lambda **_: {"logits": _LOGITS}, objectives.SINGLE_LABEL
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
