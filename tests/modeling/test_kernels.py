"""Arithmetic between the matrix products, against numpy in float64."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import kernels

_SEED = np.array([3, 5], np.int32)


def _random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_gelu_is_the_tanh_form():
    x = np.linspace(-6, 6, 97)
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    want = 0.5 * x * (1 + np.tanh(inner))
    got = kernels.activate(tf.constant(x, tf.float32), "gelu")
    np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("relu", [0, 0, 2]),
        ("linear", [-1, 0, 2]),
        ("tanh", np.tanh([-1, 0, 2])),
    ],
)
def test_other_activations(name, want):
    got = kernels.activate(tf.constant([-1.0, 0.0, 2.0]), name)
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_activation_function_is_applied():
    assert kernels.activate(tf.constant(3.0), tf.square) == 9.0


def test_layer_norm_normalises_rows():
    x, gamma, beta = 5 + _random(2, 7, 12), _random(12), _random(12)
    centred = x - x.mean(-1, keepdims=True, dtype=np.float64)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    got = kernels.layer_norm(tf.constant(x), gamma, beta)
    np.testing.assert_allclose(got, want * gamma + beta, atol=3e-6)


def test_layer_norm_has_the_release_s_epsilon():
    # Deviations of 1e-6 have the variance 1e-12: halved under the root.
    x = tf.constant([[1e-6, -1e-6]])
    got = kernels.layer_norm(x, np.ones(2, "f"), np.zeros(2, "f"))
    np.testing.assert_allclose(got, [[0.5**0.5, -(0.5**0.5)]], rtol=1e-5)


def test_dropout_keeps_its_share_and_the_mean():
    x = tf.ones([1000, 100])
    got = kernels.dropout(x, 0.1, _SEED).numpy()
    kept = np.count_nonzero(got) / got.size
    # Five standard deviations of 100,000 draws.
    assert abs(kept - 0.9) < 5 * math.sqrt(0.9 * 0.1 / got.size)
    np.testing.assert_allclose(got[got != 0], 1 / 0.9, rtol=1e-5)


def test_dropout_draws_neighbours_independently():
    zero = kernels.dropout(tf.ones([200_000]), 0.3, _SEED).numpy() == 0
    both = np.mean(zero[:-1] & zero[1:])
    assert abs(both - 0.09) < 0.005


def test_dropout_is_a_function_of_its_seed():
    x = tf.constant(_random(5, 7))  # An odd number of elements.
    once = kernels.dropout(x, 0.5, _SEED)
    np.testing.assert_array_equal(once, kernels.dropout(x, 0.5, _SEED))
    other = kernels.dropout(x, 0.5, np.array([3, 6], np.int32))
    assert np.any(once != other)


def test_dropout_is_the_same_in_a_graph():
    x = tf.constant(_random(5, 7))
    graph = tf.function(
        lambda x, seed: kernels.dropout(x, 0.5, seed),
        input_signature=[
            tf.TensorSpec([None, None]),
            tf.TensorSpec([2], tf.int32),
        ],
    )
    eager = kernels.dropout(x, 0.5, _SEED)
    np.testing.assert_array_equal(graph(x, _SEED), eager)


@pytest.mark.parametrize("rate", [0.0, 1e-9])
def test_no_rate_drops_nothing(rate):
    x = tf.constant(_random(4))
    np.testing.assert_array_equal(kernels.dropout(x, rate, _SEED), x)


def test_no_seed_drops_nothing():
    x = tf.constant(_random(4))
    np.testing.assert_array_equal(kernels.dropout(x, 0.9, None), x)


def test_highest_rate_is_finite():
    got = kernels.dropout(tf.ones([64]), 1 - 1e-9, _SEED)
    assert np.all(np.isfinite(got))


def test_sites_and_steps_have_their_own_seeds():
    seeds = {
        tuple(kernels.site_seed(np.array([7, step], np.int32), site).numpy())
        for step in range(20)
        for site in range(20)
    }
    assert len(seeds) == 400


def test_attention_adder_hides_padding():
    got = kernels.attention_adder(np.array([[1, 1, 0]]), causal=False)
    assert got.shape == (1, 1, 1, 3)
    np.testing.assert_array_equal(got[0, 0, 0], [0, 0, -10000])


def test_causal_adder_hides_the_future_more_than_padding():
    got = kernels.attention_adder(np.array([[0, 1]]), causal=True).numpy()
    np.testing.assert_array_equal(
        got[0, 0], np.array([[-10000, -1e30], [-10000, 0]], np.float32)
    )


def test_attention_probs_scale_first_and_sum_to_one():
    scores = tf.constant([[[[2.0, 4.0, 100.0]]]])
    adder = tf.constant([[[[0.0, 0.0, -10000.0]]]])
    got = kernels.attention_probs(scores, adder, 0.5)[0, 0, 0]
    want = np.exp([1, 2]) / np.exp([1, 2]).sum()
    np.testing.assert_allclose(got, [*want, 0], atol=1e-7)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_kernels_return_the_type_they_get(dtype):
    x = keras.ops.cast(_random(1, 2, 3, 4), dtype)
    ones, zeros = np.ones(4, "f"), np.zeros(4, "f")
    adder = tf.zeros([1, 1, 1, 4])
    for got in (
        kernels.layer_norm(x, ones, zeros),
        kernels.dropout_add_norm(x, x, (ones, zeros), 0.1, _SEED),
        kernels.attention_probs(x, adder, 0.5),
        kernels.activate(x, "gelu"),
        kernels.dropout(x, 0.5, _SEED),
    ):
        assert keras.backend.standardize_dtype(got.dtype) == dtype
