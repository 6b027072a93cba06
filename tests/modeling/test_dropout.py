"""Dropout: its share, its independence and its seeds."""

import math

import numpy as np
import pytest
import tensorflow as tf

from modeling import compilation, dropout

_SEED = np.array([3, 5], np.int32)


def _random(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("rate", [0.1, 0.004])
def test_dropout_keeps_its_share_and_the_mean(rate):
    x = tf.ones([1000, 100])
    got = dropout.dropout(x, rate, _SEED).numpy()
    kept = np.count_nonzero(got) / got.size
    # Five standard deviations of 100,000 draws.
    assert abs(kept - (1 - rate)) < 5 * math.sqrt(rate * (1 - rate) / got.size)
    np.testing.assert_allclose(got[got != 0], 1 / (1 - rate), rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 30), (2, 5, 12)])
def test_dropout_numbers_the_places_of_a_tensor_one_after_the_other(shape):
    got = dropout.dropout(tf.ones(shape), 0.5, _SEED)
    flat = dropout.dropout(tf.ones([120]), 0.5, _SEED)
    np.testing.assert_array_equal(np.ravel(got), flat)


def test_dropout_numbers_more_places_than_int32_has():
    scores = tf.TensorSpec([512, 16, 512, 512], tf.bfloat16)
    graph = tf.function(lambda x: dropout.dropout(x, 0.1, _SEED))
    dropped = graph.get_concrete_function(scores)  # Half of 8 GB, not executed.
    assert dropped.output_shapes == scores.shape


@pytest.mark.parametrize("distance", [1, 2, 16, 128, 768, 16384])
def test_dropout_draws_places_independently(distance):
    zero = dropout.dropout(tf.ones([200_000]), 0.3, _SEED).numpy() == 0
    both = np.mean(zero[:-distance] & zero[distance:])
    assert abs(both - 0.09) < 0.005


@pytest.mark.parametrize("other", [[4, 5], [3, 6], [5, 3], [-3, 5], [3, 5, 0]])
def test_dropout_draws_seeds_independently(other):
    x = tf.ones([200_000])
    zero = dropout.dropout(x, 0.3, _SEED).numpy() == 0
    other = dropout.dropout(x, 0.3, np.array(other, np.int32)).numpy() == 0
    # Five standard deviations of 200,000 draws.
    assert abs(np.mean(zero & other) - 0.09) < 0.0033


def test_dropout_of_many_sites_zeroes_each_place_alike():
    ones = tf.ones([500])
    seeds = [
        dropout.site_seed(np.array([1, step]), site).numpy()
        for step in range(20)
        for site in range(20)
    ]
    drawn = tf.function(
        lambda seeds: tf.map_fn(
            lambda seed: dropout.dropout(ones, 0.5, seed),
            seeds,
            fn_output_signature=tf.float32,
        )
    )(np.array(seeds))
    zeros = np.sum(np.equal(drawn, 0), axis=0)
    # 400 draws a place: binomial, of variance 100.
    assert abs(np.mean(zeros) - 200) < 5 * math.sqrt(100 / 500)
    assert 80 < np.var(zeros) < 125


def test_the_pattern_of_a_seed_never_changes():
    # Recorded: a training of an earlier version is repeated digit by digit.
    for seed, kept in (
        (_SEED, "11001111111111111010010010011101"),
        (dropout.site_seed(_SEED, 7), "00010101100110101100001100100000"),
    ):
        got = dropout.dropout(tf.ones([32]), 0.5, seed).numpy()
        np.testing.assert_array_equal(got, [2 * int(bit) for bit in kept])


def test_dropout_is_a_function_of_its_seed():
    x = tf.constant(_random(5, 7))  # An odd number of elements.
    once = dropout.dropout(x, 0.5, _SEED)
    np.testing.assert_array_equal(once, dropout.dropout(x, 0.5, _SEED))
    other = dropout.dropout(x, 0.5, np.array([3, 6], np.int32))
    assert np.any(once != other)


def test_dropout_is_the_same_compiled_and_in_a_graph(monkeypatch):
    x = tf.constant(_random(5, 7))
    graph = tf.function(
        lambda x, seed: dropout.dropout(x, 0.5, seed),
        input_signature=[
            tf.TensorSpec([None, None]),
            tf.TensorSpec([2], tf.int32),
        ],
    )
    eager = dropout.dropout(x, 0.5, _SEED)
    np.testing.assert_array_equal(graph(x, _SEED), eager)
    # Small tensors are not compiled.
    monkeypatch.setattr(compilation, "_WORTH_COMPILING", 0)
    with compilation.in_mode(compilation.ExecutionMode.FUSED):
        compiled = dropout.dropout(x, 0.5, _SEED)
    np.testing.assert_array_equal(compiled, eager)


def test_no_rate_and_no_seed_drop_nothing():
    x = tf.constant(_random(64))
    for rate, seed in ((0.0, _SEED), (1e-12, _SEED), (0.9, None)):
        np.testing.assert_array_equal(dropout.dropout(x, rate, seed), x)
    assert np.all(np.isfinite(dropout.dropout(x, 1 - 1e-12, _SEED)))


def test_sites_and_steps_have_their_own_seeds():
    seeds = {
        tuple(dropout.site_seed(np.array([7, step], np.int32), site).numpy())
        for step in range(20)
        for site in range(20)
    }
    assert len(seeds) == 400
