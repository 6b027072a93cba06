"""Cross entropy over a vocabulary, against its formula in float64."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import cross_entropy


def _inputs():
    rng = np.random.default_rng(0)
    hidden, table, bias = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((6, 5), (11, 5), (11,))
    )
    labels = np.array([10, 0, 3, 3, 7, 3], np.int32)
    return hidden, table, bias, labels


def _formula(hidden, table, bias, labels):
    logits = hidden.astype(np.float64) @ table.T + bias
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    losses = -np.log(shares[np.arange(len(labels)), labels])
    weights = np.array([0.5, 1.0, 0.0, 2.0, 1.0, 0.25])
    slope = (shares - np.eye(len(bias))[labels]) * weights[:, None]
    gradients = slope @ table, slope.T @ hidden, slope.sum(0)
    return losses, logits.argmax(-1) == labels, weights, gradients


# float16 goes by logits in float32, the others by probabilities.
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(tf.float32, 2e-6), (tf.bfloat16, 0.06), (tf.float16, 0.01)],
)
def test_tied_cross_entropy_and_its_gradients(dtype, tolerance):
    *tensors, labels = _inputs()
    losses, correct, weights, gradients = _formula(*tensors, labels)
    tensors = [tf.constant(tensor) for tensor in tensors]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        hidden, table, bias = tensors
        got, is_best = cross_entropy.tied_cross_entropy(
            tf.cast(hidden, dtype), table, bias, labels
        )
        total = tf.reduce_sum(got * tf.constant(weights, tf.float32))
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, losses, atol=tolerance)
    np.testing.assert_array_equal(is_best, correct)
    for found, want in zip(
        tape.gradient(total, tensors), gradients, strict=True
    ):
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, want, atol=tolerance)


def test_tied_logits_are_in_float32():
    hidden, table, bias, _ = _inputs()
    got = cross_entropy.tied_logits(tf.cast(hidden, "bfloat16"), table, bias)
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, hidden @ table.T + bias, atol=0.1)


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_loss_of_a_word_without_a_chance_is_finite(size):
    hidden = tf.constant([[1.0]])
    table = tf.constant([[0.0], [size]])
    losses, is_best = cross_entropy.tied_cross_entropy(
        hidden, table, tf.zeros([2]), [0]
    )
    assert float(losses[0]) == pytest.approx(size, rel=1e-6)
    assert float(is_best[0]) == 0


def test_first_of_the_best_words_counts():
    hidden, table = tf.zeros([2, 3]), tf.zeros([4, 3])
    bias = tf.constant([0.0, 1.0, 1.0, 0.0])
    _, is_best = cross_entropy.tied_cross_entropy(hidden, table, bias, [1, 2])
    np.testing.assert_array_equal(is_best, [1, 0])
