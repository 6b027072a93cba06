"""Arithmetic between the matrix products, against numpy in float64."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import compilation, dropout, layers

_SEED = np.array([3, 5], np.int32)


def _random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.fixture(params=[None, *compilation.ExecutionMode])
def _all_modes(request, monkeypatch):
    """Runs a test in each mode and outside; small tensors are compiled, too."""
    monkeypatch.setattr(compilation, "_WORTH_COMPILING", 0)
    with compilation.in_mode(request.param):
        yield


def test_logits_are_products_in_float32():
    x, weights = tf.cast(_random(4, 200), tf.bfloat16), _random(3, 200)
    want = tf.cast(x, tf.float64).numpy() @ weights.T.astype(np.float64)
    logits = layers.linear(x, weights, None)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, want, atol=1e-4)


@pytest.mark.usefixtures("_all_modes")
def test_the_exact_gelu_is_the_erf_form():
    x, bias = np.linspace(-6, 6, 96).reshape(8, 12), _random(12)
    want = [
        [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in row]
        for row in x + bias
    ]
    x = tf.constant(x, tf.float32)
    got = layers.bias_activation(x, bias, activation="gelu_exact")
    np.testing.assert_allclose(got, want, atol=2e-6)
    # By as much as this the tanh form is off.
    off = np.abs(got - layers.bias_activation(x, bias, activation="gelu"))
    assert 4e-4 < off.max() < 5e-4


@pytest.mark.usefixtures("_all_modes")
def test_the_slope_of_the_exact_gelu_is_that_of_the_formula():
    x, bias = tf.linspace(-6.0, 6.0, 96)[:, None], tf.zeros([1])
    with tf.GradientTape() as tape:
        tape.watch([x, bias])
        y = layers.bias_activation(x, bias, activation="gelu_exact")
    d_x, d_bias = tape.gradient(y, [x, bias])
    want = [
        0.5 * (1 + math.erf(v / math.sqrt(2)))
        + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        for v in x[:, 0].numpy().astype(np.float64)
    ]
    np.testing.assert_allclose(d_x[:, 0], want, atol=1e-6)
    np.testing.assert_allclose(d_bias, [sum(want)], rtol=1e-6)


@pytest.mark.usefixtures("_all_modes")
def test_layer_norm_normalizes_rows():
    x, gamma, beta = 5 + _random(2, 7, 12), _random(12), _random(12)
    centered = x - x.mean(-1, keepdims=True, dtype=np.float64)
    want = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
    got = layers.layer_norm(tf.constant(x), gamma, beta)
    np.testing.assert_allclose(got, want * gamma + beta, atol=3e-6)


def test_layer_norm_has_the_release_s_epsilon():
    # Deviations of 1e-6 have the variance 1e-12: halved under the root.
    x = tf.constant([[1e-6, -1e-6]])
    got = layers.layer_norm(x, np.ones(2, "f"), np.zeros(2, "f"))
    np.testing.assert_allclose(got, [[0.5**0.5, -(0.5**0.5)]], rtol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_block_end_is_its_parts(rate):
    x, residual = tf.constant(_random(2, 7, 12)), tf.constant(_random(2, 7, 12))
    bias, norm = _random(12), (1 + _random(12), _random(12))
    got = layers.block_end(x, bias, 2 * residual, norm, rate, _SEED)
    inside = dropout.dropout(x + bias, rate, _SEED) + 2 * residual
    want = layers.layer_norm(inside, *norm)
    np.testing.assert_allclose(got, want, atol=2e-6)


_FUNCTIONS = {
    "layer_norm": lambda x, bias, norm: layers.layer_norm(x, *norm),
    "block_end": lambda x, bias, norm: layers.block_end(
        x, bias, 2 * x, norm, 0.3, _SEED
    ),
    "block_end_without_dropout": lambda x, bias, norm: layers.block_end(
        x, bias, 2 * x, norm, 0.3, None
    ),
    "gelu": lambda x, bias, norm: layers.bias_activation(
        x, bias, activation="gelu"
    ),
    "gelu_exact": lambda x, bias, norm: layers.bias_activation(
        x, bias, activation="gelu_exact"
    ),
    "dropout": lambda x, bias, norm: dropout.dropout(x, 0.3, _SEED),
    # The bias of attention has no gradient.
    "softmax": lambda x, bias, norm: layers.softmax(
        x, np.linspace(-3, 0, 12, dtype="f")
    ),
}


@pytest.mark.usefixtures("_all_modes")
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_gradients_are_the_slopes(name):
    """Compares with differences along random directions."""
    variables = [
        tf.Variable(value)
        for value in (
            *(_random(2, 5, 12), _random(12)),
            *(1 + 0.1 * _random(12), _random(12)),
        )
    ]
    weights = _random(2, 5, 12)[:, ::-1]

    def total():
        x, bias, *norm = (tf.convert_to_tensor(v) for v in variables)
        return tf.reduce_sum(_FUNCTIONS[name](x, bias, norm) * weights)

    with tf.GradientTape() as tape:
        loss = total()
    gradients = tape.gradient(
        loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    for i, variable in enumerate(variables):
        direction = np.random.default_rng(i).normal(size=variable.shape)
        direction = direction.astype(np.float32)
        want = np.sum(gradients[i].numpy() * direction)
        found = []
        for sign in (1, -1):
            variable.assign_add(sign * 5e-3 * direction)
            found.append(total().numpy())
            variable.assign_sub(sign * 5e-3 * direction)
        slope = (found[0] - found[1]) / 1e-2
        # The third derivative, times 4e-6, and float32.
        assert slope == pytest.approx(want, rel=3e-3, abs=2e-2), (name, i)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_the_arithmetic_of_16_bit_numbers_is_that_of_float32(name):
    x = tf.cast(_random(2, 5, 12), tf.bfloat16)
    bias, norm = _random(12), (1 + _random(12), _random(12))
    wide = _FUNCTIONS[name](tf.cast(x, tf.float32), bias, norm)
    np.testing.assert_array_equal(
        _FUNCTIONS[name](x, bias, norm), tf.cast(wide, tf.bfloat16)
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_kernels_return_the_type_they_get(dtype):
    x = keras.ops.cast(_random(1, 2, 3, 4), dtype)
    ones, zeros = np.ones(4, "f"), np.zeros(4, "f")
    for got in (
        layers.layer_norm(x, ones, zeros),
        layers.block_end(x, zeros, x, (ones, zeros), 0.1, _SEED),
        layers.bias_activation(x, zeros, activation="gelu"),
        layers.bias_activation(x, zeros, activation="gelu_exact"),
        layers.bias_activation(x, zeros, activation="relu"),
        dropout.dropout(x, 0.5, _SEED),
    ):
        assert keras.backend.standardize_dtype(got.dtype) == dtype
