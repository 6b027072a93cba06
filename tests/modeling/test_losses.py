"""Losses, worked by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses

# Softmax of these is (0.1, 0.2, 0.7) and (0.25, 0.25, 0.5).
_LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [1.0, 1.0, 2.0]], np.float32))


def test_cross_entropy_per_item():
    got = losses.cross_entropy(_LOGITS, np.array([2, 0]))
    np.testing.assert_allclose(got, [-math.log(0.7), math.log(4)], rtol=1e-6)


def test_cross_entropy_of_low_precision_logits_is_float32():
    logits = tf.constant([[300.0, 0.0]], tf.bfloat16)
    got = losses.cross_entropy(logits, np.array([1]))
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, [300.0])


def test_masked_lm_loss_divides_by_weights_plus_the_release_s_offset():
    got = losses.masked_lm_loss(_LOGITS[None], [[2, 0]], [[1.0, 0.0]])
    np.testing.assert_allclose(got, -math.log(0.7) / 1.00001, rtol=1e-6)


def test_masked_lm_loss_without_predictions_is_zero():
    assert losses.masked_lm_loss(_LOGITS[None], [[2, 0]], [[0.0, 0.0]]) == 0


def test_masked_lm_losses_of_parts_add_up_to_that_of_the_batch():
    labels, weights = np.array([[2], [0]]), np.array([[1.0], [0.5]], "f")
    whole = losses.masked_lm_loss(_LOGITS[:, None], labels, weights)
    parts = [
        losses.masked_lm_loss(
            _LOGITS[i, None, None], labels[i : i + 1], weights[i : i + 1], 1.5
        )
        for i in range(2)
    ]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-6)


@pytest.mark.parametrize("labels", [[0, 1], [[0], [1]]])
def test_next_sentence_loss_is_the_mean(labels):
    logits = np.log(np.array([[0.25, 0.75], [0.5, 0.5]], np.float32))
    got = losses.next_sentence_loss(logits, np.array(labels))
    np.testing.assert_allclose(got, (math.log(4) + math.log(2)) / 2, rtol=1e-6)


def test_filling_rows_do_not_count():
    got = losses.classification_loss(_LOGITS, np.array([1, 0]), [1.0, 0.0])
    np.testing.assert_allclose(got, math.log(5), rtol=1e-6)


def test_only_filling_rows_give_zero():
    got = losses.classification_loss(_LOGITS, np.array([1, 0]), [0.0, 0.0])
    assert got == 0


def test_denominator_of_the_whole_batch():
    got = losses.classification_loss(
        _LOGITS, np.array([1, 0]), denominator=tf.constant(8)
    )
    np.testing.assert_allclose(got, (math.log(5) + math.log(4)) / 8, rtol=1e-6)


@pytest.mark.parametrize("shape", [(2,), (2, 1)])
def test_regression_loss_is_the_mean_squared_error(shape):
    scores = np.array([1.0, 5.0], np.float32).reshape(shape)
    got = losses.regression_loss(scores, np.array([2.0, 2.0]))
    np.testing.assert_allclose(got, (1 + 9) / 2)


def test_span_loss_is_the_mean_of_start_and_end():
    got = losses.span_loss(
        (_LOGITS[:1], _LOGITS[1:]), (np.array([2]), np.array([0]))
    )
    np.testing.assert_allclose(
        got, (-math.log(0.7) + math.log(4)) / 2, rtol=1e-6
    )


def test_gradient_of_cross_entropy_is_softmax_minus_target():
    logits = tf.constant(_LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        items = losses.cross_entropy(logits, np.array([2, 0]))
        loss = tf.reduce_sum(items * [1.0, 10.0])
    want = [[0.1, 0.2, -0.3], [-7.5, 2.5, 5.0]]
    np.testing.assert_allclose(tape.gradient(loss, logits), want, atol=1e-5)


def test_cross_entropy_of_huge_logits_is_finite():
    got = losses.cross_entropy(tf.constant([[1e4, -1e4]]), np.array([1]))
    np.testing.assert_allclose(got, [2e4])


def test_span_loss_takes_sequences_of_unknown_length():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None]),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def gradient(logits, positions):
        loss = losses.span_loss((logits, logits), (positions, positions))
        return tf.gradients(loss, logits)[0]

    got = gradient(_LOGITS, np.array([2, 0], np.int32))
    want = np.array([[0.1, 0.2, -0.3], [-0.75, 0.25, 0.5]]) / 2
    np.testing.assert_allclose(got, want, atol=1e-6)
