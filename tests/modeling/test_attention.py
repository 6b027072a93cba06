"""Attention, against its formula in numpy, and what hides positions."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, compilation, dropout
from tests.support import toy_config

_SEED = np.array([3, 5], np.int32)
_RATE = 0.3
_SITE = 4


def _attention(**changes):
    keras.utils.set_random_seed(0)
    config = toy_config.config(
        initializer_range=0.5, attention_probs_dropout_prob=_RATE, **changes
    )
    layer = bert.SelfAttention(config, _SITE)
    layer.build()
    for dense in (layer.query, layer.key, layer.value):
        dense.bias.assign(np.linspace(-1, 1, 12))
    return layer


def _hidden():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2 * 5, 12)).astype(np.float32)


def test_bias_hides_padding():
    got = bert.attention_bias_of(np.array([[1, 1, 0]]), causal=False)
    assert got.shape == (1, 1, 1, 3)
    np.testing.assert_array_equal(got[0, 0, 0], [0, 0, -10000])


def test_causal_bias_hides_the_future_more_than_padding():
    got = bert.attention_bias_of(np.array([[0, 1]]), causal=True).numpy()
    np.testing.assert_array_equal(
        got[0, 0], np.array([[-10000, -1e30], [-10000, 0]], np.float32)
    )


@pytest.mark.parametrize("causal", [False, True])
def test_texts_of_one_row_do_not_see_each_other(causal):
    texts = np.array([[1, 1, 2, 2, 2, 0]])
    bias = bert.attention_bias_between(texts, causal=causal).numpy()[0, 0]
    for query, key in np.ndindex(6, 6):
        is_seen = texts[0, query] == texts[0, key]
        is_seen &= key <= query or not causal
        assert (bias[query, key] == 0) == is_seen, (query, key)


def _formula(layer, hidden, bias, seed):
    """Vaswani et al. 2017, equation 1, which TensorFlow differentiates."""
    query, key, value = (
        tf.reshape(hidden @ dense.kernel + dense.bias, [2, 5, 3, 4])
        for dense in (layer.query, layer.key, layer.value)
    )
    scores = tf.einsum("btnh,bsnh->bnts", query, key) / 2 + bias
    probs = tf.nn.softmax(scores)
    ones = tf.ones(probs.shape)
    kept = dropout.dropout(ones, _RATE, dropout.site_seed(seed, _SITE))
    context = tf.einsum("bnts,bsnh->btnh", probs * kept, value)
    return tf.reshape(context, [10, 12])


@pytest.mark.parametrize("mode", [None, *compilation.ExecutionMode])
@pytest.mark.parametrize(("causal", "seed"), [(False, None), (True, _SEED)])
def test_attention_and_its_gradient_are_the_formula_s(
    monkeypatch, mode, causal, seed
):
    # Small tensors are not compiled.
    monkeypatch.setattr(compilation, "_WORTH_COMPILING", 0)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    bias = bert.attention_bias_of(mask, causal=causal)
    layer, hidden = _attention(), tf.constant(_hidden())
    weights = np.random.default_rng(1).normal(size=(10, 12))
    variables = [hidden, *(v.value for v in layer.trainable_variables)]
    results = []
    for function in (
        lambda: layer(hidden, bias, dropout_seed=seed),
        lambda: _formula(layer, hidden, bias, seed),
    ):
        with compilation.in_mode(mode), tf.GradientTape() as tape:
            tape.watch(hidden)
            context = function()
            total = tf.reduce_sum(context * weights.astype(np.float32))
        results.append((context, *tape.gradient(total, variables)))
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)


@pytest.mark.parametrize("mode", compilation.ExecutionMode)
def test_training_keeps_probabilities_in_the_compute_type(mode, monkeypatch):
    """In bfloat16 they take half the memory of float32 between the passes."""
    # Small tensors are not compiled.
    monkeypatch.setattr(compilation, "_WORTH_COMPILING", 0)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        layer = _attention()
    finally:
        keras.config.set_dtype_policy("float32")
    hidden = tf.cast(_hidden(), tf.bfloat16)
    bias = bert.attention_bias_of(np.ones([2, 5]), causal=False)
    weights = [v.value for v in layer.trainable_variables]

    @tf.function(autograph=False)
    def gradients():
        with compilation.in_mode(mode), tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.cast(layer(hidden, bias), tf.float32) ** 2)
        return tape.gradient(loss, weights)

    operations = gradients.get_concrete_function().graph.get_operations()
    probs = [op for op in operations if op.type == "Softmax"]
    # In a compiled formula it is not in this graph.
    assert len(probs) == (mode is not compilation.ExecutionMode.FUSED)
    for op in probs:
        users = {user.type for user in op.outputs[0].consumers()}
        assert users == {"Cast"}
    shape = [2, 3, 5, 5]
    kept = [
        op.outputs[0].dtype
        for op in operations
        if op.outputs
        and op.type in ("PartitionedCall", "StatefulPartitionedCall")
        and op.outputs[0].shape == shape
    ]
    assert set(kept) <= {tf.bfloat16}


def test_large_queries_do_not_overflow_in_float16():
    """Their product is more than 65,504, and its half is not."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        layer = _attention()
    finally:
        keras.config.set_dtype_policy("float32")
    for dense in (layer.query, layer.key):
        dense.kernel.assign(np.zeros([12, 12]))
        dense.bias.assign(np.full([12], 140.0))  # 4 * 140 * 140 = 78,400.
    bias = bert.attention_bias_of(np.ones([2, 5]), causal=False)
    got = layer.probs(tf.constant(_hidden()), bias).numpy()
    np.testing.assert_allclose(got, 0.2, rtol=1e-3)
