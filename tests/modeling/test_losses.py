"""Losses, worked by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses

# Softmax of these is (0.1, 0.2, 0.7) and (0.25, 0.25, 0.5).
_LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [1.0, 1.0, 2.0]], np.float32))


@pytest.mark.parametrize(
    ("logits", "dtype", "want"),
    [([300.0, 0.0], "bfloat16", 300.0), ([1e4, -1e4], "float32", 2e4)],
)
def test_cross_entropy_of_any_logits_is_finite_and_float32(logits, dtype, want):
    got = losses.cross_entropy(tf.constant([logits], dtype), np.array([1]))
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, [want])


def test_masked_lm_loss_divides_by_weights_plus_the_release_s_offset():
    got = losses.masked_lm_loss(np.array([[3.0, 5.0]]), np.array([[1, 0]]), 1.0)
    np.testing.assert_allclose(got, 3 / 1.00001, rtol=1e-6)
    # Without predictions it is 0.
    assert losses.masked_lm_loss(np.ones([1, 2]), np.zeros([1, 2]), 0.0) == 0


def test_losses_of_parts_add_up_to_that_of_the_batch():
    items, weights = np.array([3.0, 5.0, 7.0]), np.array([1.0, 0.5, 1.0])
    for loss in (losses.masked_lm_loss, losses.mean_loss):
        whole = loss(items, weights, 2.5)
        parts = [
            loss(items[part], weights[part], 2.5)
            for part in (slice(0, 1), slice(1, 3))
        ]
        np.testing.assert_allclose(sum(parts), whole, rtol=1e-6)


def test_filling_rows_do_not_count_and_alone_give_zero():
    got = losses.mean_loss(np.array([3.0, 9.0]), np.array([1.0, 0.0]), 1.0)
    np.testing.assert_allclose(got, 3)
    assert losses.mean_loss(np.ones([2]), np.zeros([2]), 0.0) == 0


def test_squared_error_of_each_score():
    got = losses.squared_error(np.array([1.0, 5.0]), np.array([2.0, 2.0]))
    np.testing.assert_allclose(got, [1, 9])


def test_several_labels_are_averaged():
    logits = np.array([[0.0, math.log(3)], [200.0, -200.0]], np.float32)
    labels = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    got = losses.multi_label_cross_entropy(logits, labels)
    want = [(math.log(2) + math.log(4)) / 2, 200]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_several_labels_are_averaged_by_their_weights():
    logits = np.array([[0.0, math.log(3)]], np.float32)
    labels = np.array([[1.0, 0.0]], np.float32)
    weights = np.array([[3.0, 1.0]], np.float32)
    got = losses.multi_label_cross_entropy(logits, labels, weights)
    want = [(3 * math.log(2) + math.log(4)) / 4]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_span_loss_is_the_mean_of_start_and_end():
    got = losses.span_cross_entropy(
        (_LOGITS[:1], _LOGITS[1:]), (np.array([2]), np.array([0]))
    )
    np.testing.assert_allclose(
        got, [(-math.log(0.7) + math.log(4)) / 2], rtol=1e-6
    )


def test_span_loss_takes_sequences_of_unknown_length():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None]),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def gradient(logits, positions):
        loss = losses.span_cross_entropy(
            (logits, logits), (positions, positions)
        )
        return tf.gradients(tf.reduce_mean(loss), logits)[0]

    got = gradient(_LOGITS, np.array([2, 0], np.int32))
    want = np.array([[0.1, 0.2, -0.3], [-0.75, 0.25, 0.5]]) / 2
    np.testing.assert_allclose(got, want, atol=1e-6)


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
    word_losses = -np.log(shares[np.arange(len(labels)), labels])
    weights = np.array([0.5, 1.0, 0.0, 2.0, 1.0, 0.25])
    slope = (shares - np.eye(len(bias))[labels]) * weights[:, None]
    gradients = slope @ table, slope.T @ hidden, slope.sum(0)
    return word_losses, logits.argmax(-1) == labels, weights, gradients


# float16 goes by logits in float32, the others by probabilities.
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(tf.float32, 2e-6), (tf.bfloat16, 0.06), (tf.float16, 0.01)],
)
def test_tied_cross_entropy_and_its_gradients(dtype, tolerance):
    *tensors, labels = _inputs()
    want_losses, correct, weights, gradients = _formula(*tensors, labels)
    tensors = [tf.constant(tensor) for tensor in tensors]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        hidden, table, bias = tensors
        got, is_best = losses.tied_cross_entropy(
            tf.cast(hidden, dtype), table, bias, labels
        )
        total = tf.reduce_sum(got * tf.constant(weights, tf.float32))
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, want_losses, atol=tolerance)
    np.testing.assert_array_equal(is_best, correct)
    for found, want in zip(
        tape.gradient(total, tensors), gradients, strict=True
    ):
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, want, atol=tolerance)


def test_a_word_that_float16_rounds_to_probability_0_has_a_gradient():
    # Of the second word 1 - 1.5e-8; the smallest number is 6e-8.
    hidden, table = tf.constant([[1.0]], tf.float16), tf.constant([[0.0], [18]])
    bias = tf.zeros([2])
    with tf.GradientTape() as tape:
        tape.watch(bias)
        (loss,), _ = losses.tied_cross_entropy(hidden, table, bias, [1])
    slope = tape.gradient(loss, bias).numpy()
    assert slope[0] == pytest.approx(math.exp(-18), rel=1e-3)


def test_tied_logits_are_in_float32():
    hidden, table, bias, _ = _inputs()
    got = losses.tied_logits(tf.cast(hidden, "bfloat16"), table, bias)
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, hidden @ table.T + bias, atol=0.1)


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_loss_of_a_word_of_probability_0_is_finite(size):
    hidden = tf.constant([[1.0]])
    table = tf.constant([[0.0], [size]])
    got, is_best = losses.tied_cross_entropy(hidden, table, tf.zeros([2]), [0])
    assert float(got[0]) == pytest.approx(size, rel=1e-6)
    assert float(is_best[0]) == 0


def test_first_of_the_best_words_counts():
    hidden, table = tf.zeros([2, 3]), tf.zeros([4, 3])
    bias = tf.constant([0.0, 1.0, 1.0, 0.0])
    _, is_best = losses.tied_cross_entropy(hidden, table, bias, [1, 2])
    np.testing.assert_array_equal(is_best, [1, 0])
