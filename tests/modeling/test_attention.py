"""Attention, against its formula in numpy and against plain operations."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import compilation, kernels, layers

_SEED = np.array([3, 5], np.int32)
_NUM_HEADS = 2


def _random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture(params=["plain", "compiled"])
def _both(request, monkeypatch):
    """Runs a test with XLA and without, whatever the size."""
    size = 0 if request.param == "compiled" else 1 << 40
    monkeypatch.setattr(compilation, "_WORTH_COMPILING", size)


def test_adder_hides_padding():
    got = layers.adder_of(np.array([[1, 1, 0]]), causal=False)
    assert got.shape == (1, 1, 1, 3)
    np.testing.assert_array_equal(got[0, 0, 0], [0, 0, -10000])


def test_causal_adder_hides_the_future_more_than_padding():
    got = layers.adder_of(np.array([[0, 1]]), causal=True).numpy()
    np.testing.assert_array_equal(
        got[0, 0], np.array([[-10000, -1e30], [-10000, 0]], np.float32)
    )


def _formula(products, bias, adder, drop):
    """The formula, which TensorFlow differentiates."""
    biased = tf.reshape(products + bias, [2, 5, 3, 2, 3])
    split = tf.unstack(tf.transpose(biased, [2, 0, 3, 1, 4]))  # [B, N, T, H]
    context = layers.attention(*split, adder, drop)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [2, 5, 6])


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_formula_by_hand(rate):
    query, key, value = (_random(2, 2, 5, 3, seed=i) for i in range(3))
    adder = layers.adder_of(np.array([[1, 1, 1, 1, 0]] * 2), causal=False)
    scores = np.einsum("bnth,bnsh->bnts", query, key) / np.sqrt(3) + adder
    probs = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    ones = tf.ones(probs.shape)
    kept = kernels.dropped(ones, _SEED, rate=rate).numpy()
    want = np.einsum("bnts,bnsh->bnth", probs * kept, value)
    drop = (rate, _SEED)
    got = layers.attention(*map(tf.constant, (query, key, value)), adder, drop)
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.usefixtures("_both")
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_and_its_gradient_are_the_formula_s(rate, causal):
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    adder = layers.adder_of(mask, causal=causal)
    products, bias = tf.constant(_random(2, 5, 18)), tf.constant(_random(18))
    weights = _random(2, 5, 6, seed=1)
    seed = _SEED if rate else None
    results = []
    for function in (
        lambda *a: layers.attend(*a, adder, _NUM_HEADS, (rate, seed)),
        lambda *a: _formula(*a, adder, (rate, seed)),
    ):
        with tf.GradientTape() as tape:
            tape.watch([products, bias])
            context = function(products, bias)
            total = tf.reduce_sum(context * weights)
        results.append((context, *tape.gradient(total, [products, bias])))
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_probs_sum_to_one_and_leave_padding_out():
    adder = layers.adder_of(np.array([[1, 1, 1, 0]] * 2), causal=False)
    query, key, _ = layers.split_heads(
        tf.constant(_random(2, 4, 18)), _random(18), num_heads=_NUM_HEADS
    )
    got = layers.attention_probs(query, key, adder).numpy()
    assert got.shape == (2, 2, 4, 4)
    np.testing.assert_allclose(got.sum(-1), 1, atol=1e-6)
    assert not got[..., 3].any()


def test_attention_keeps_its_type():
    adder = layers.adder_of(np.ones([2, 5]), causal=False)
    products = tf.cast(_random(2, 5, 18), tf.bfloat16)
    drop = (0.1, _SEED)
    got = layers.attend(products, _random(18), adder, _NUM_HEADS, drop)
    assert got.dtype == tf.bfloat16
    want = layers.attend(
        tf.cast(products, tf.float32), _random(18), adder, _NUM_HEADS, drop
    )
    # bfloat16 has 8 bits: each of three roundings is off by up to 0.4 %.
    np.testing.assert_allclose(tf.cast(got, tf.float32), want, atol=0.05)
