"""The encoder: sizes, padding, order, dropout, precision."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, heads, layers
from tests.support import toy_config

_SEED = np.array([3, 5], np.int32)
_CONFIG = toy_config.config(
    vocab_size=11,
    num_hidden_layers=2,
    max_position_embeddings=9,
    # Wide, so that what a test changes shows.
    initializer_range=0.5,
)
_IDS = np.random.default_rng(1).integers(0, 11, [2, 7]).astype(np.int32)


def _new_model(seed=0, *, causal=False, dtype=None, **changes):
    keras.utils.set_random_seed(seed)
    config = dataclasses.replace(_CONFIG, **changes)
    return bert.BertModel(config, causal=causal, dtype=dtype)


# Shared by the tests that change no weight.
_model = functools.cache(_new_model)


def test_shapes_defaults_order_and_sides():
    model = _model()
    outputs = model(_IDS)
    assert outputs["embedding_output"].shape == (2, 7, 12)
    assert [x.shape for x in outputs["all_encoder_layers"]] == [(2, 7, 12)] * 2
    assert outputs["pooled_output"].shape == (2, 12)
    last = outputs["sequence_output"].numpy()
    np.testing.assert_array_equal(last, outputs["all_encoder_layers"][-1])
    # Mask and segments that are missing are ones and zeros.
    whole = model(_IDS, np.ones_like(_IDS), np.zeros_like(_IDS))
    np.testing.assert_array_equal(whole["sequence_output"], last)
    # The order of the batch is kept.
    turned = model(_IDS[::-1].copy())["sequence_output"]
    np.testing.assert_allclose(turned, last[::-1], atol=1e-5)
    # Both sides are seen.
    changed = _IDS.copy()
    changed[:, -1] = (changed[:, -1] + 1) % 11
    moved = np.abs(model(changed)["sequence_output"] - last)
    assert moved[:, 0].max() > 1e-3


@pytest.mark.parametrize("num_hidden_layers", [1, 2])
def test_the_first_position_alone_gets_the_same_output(num_hidden_layers):
    model = _model(num_hidden_layers=num_hidden_layers)
    mask = np.array([[1] * 7, [1, 1, 1, 1, 0, 0, 0]], np.int32)
    want, got = model(_IDS, mask), model(_IDS, mask, first_only=True)
    assert got["sequence_output"].shape == (2, 1, 12)
    np.testing.assert_allclose(
        got["sequence_output"][:, 0], want["sequence_output"][:, 0], atol=1e-5
    )
    np.testing.assert_allclose(
        got["pooled_output"], want["pooled_output"], atol=1e-5
    )


@pytest.mark.parametrize("first_only", [False, True])
def test_an_empty_batch_has_empty_outputs(first_only):
    model, ids = _model(), np.zeros([0, 7], np.int32)
    length = 1 if first_only else 7
    outputs = model(ids, first_only=first_only)
    assert outputs["sequence_output"].shape == (0, length, 12)
    assert outputs["pooled_output"].shape == (0, 12)


def test_the_first_position_alone_gives_the_same_gradients():
    model = _model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    mask = np.array([[1] * 7, [1, 1, 1, 1, 0, 0, 0]], np.int32)

    def gradients(first_only):
        with tf.GradientTape() as tape:
            outputs = model(
                _IDS, mask, dropout_seed=_SEED, first_only=first_only
            )
            loss = tf.reduce_sum(outputs["pooled_output"] ** 3)
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    for pair in zip(gradients(False), gradients(True), strict=True):
        want, got = map(tf.convert_to_tensor, pair)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "rate", ["hidden_dropout_prob", "attention_probs_dropout_prob"]
)
def test_the_first_position_alone_has_dropout_in_the_last_layer(rate):
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = _model(num_hidden_layers=1, **{**rates, rate: 0.5})
    mask = np.ones_like(_IDS)

    def output(seed):
        embedded = model.embeddings(_IDS, np.zeros_like(_IDS))
        bias = bert.attention_bias_of(mask, causal=False)
        return model.encoder(
            tf.reshape(embedded, [-1, 12]),
            bias,
            dropout_seed=seed,
            wanted=tf.constant([0, 7]),
        )[-1]

    np.testing.assert_array_equal(output(_SEED), output(_SEED))
    assert np.abs(output(_SEED) - output(None)).max() > 1e-2
    assert np.abs(output(_SEED) - output(_SEED + 1)).max() > 1e-2


def test_padding_changes_no_other_position():
    model = _model()
    mask = np.array([[1, 1, 1, 1, 0, 0, 0]] * 2, np.int32)
    longer = model(_IDS, mask)
    other_ids = np.where(mask, _IDS, 10 - _IDS)
    changed = model(other_ids, mask)
    shorter = model(_IDS[:, :4])
    for outputs in (changed, shorter):
        np.testing.assert_allclose(
            outputs["sequence_output"][:, :4],
            longer["sequence_output"][:, :4],
            atol=1e-5,
        )


@pytest.mark.parametrize("mask", [[1] * 7, [0, 0, 1, 1, 1, 1, 0]])
def test_causal_attention_never_looks_right(mask):
    model = _model(causal=True)
    mask = np.array([mask] * 2, np.int32)
    before = model(_IDS, mask)["sequence_output"].numpy()
    for changed_at in range(1, 7):
        ids = _IDS.copy()
        ids[:, changed_at] = (ids[:, changed_at] + 1) % 11
        after = model(ids, mask)["sequence_output"].numpy()
        np.testing.assert_array_equal(
            after[:, :changed_at], before[:, :changed_at]
        )
        assert np.abs(after - before)[:, changed_at].max() > 1e-3
    probs = model.attention_probs(_IDS, mask)
    assert np.triu(np.stack(probs), 1).max() == 0


def test_attention_probs_sum_to_one():
    probs = _model().attention_probs(_IDS, np.array([[1] * 5 + [0] * 2] * 2))
    assert [p.shape for p in probs] == [(2, 3, 7, 7)] * 2
    np.testing.assert_allclose(np.sum(probs, axis=-1), 1, atol=1e-6)
    assert np.max(np.stack(probs)[..., 5:]) == 0


def test_attention_probs_are_those_that_the_layers_use(monkeypatch):
    # No output of the network shows those of its last layer.
    model, used, softmax = _model(), [], layers.softmax
    mask = np.array([[1] * 7, [1, 1, 1, 1, 0, 0, 0]], np.int32)

    def noted(*arguments):
        used.append(softmax(*arguments))
        return used[-1]

    monkeypatch.setattr(layers, "softmax", noted)
    model(_IDS, mask)
    expected = [*used]
    probs = model.attention_probs(_IDS, mask)
    np.testing.assert_allclose(np.stack(probs), np.stack(expected), atol=1e-6)


@pytest.mark.parametrize("segment", [-1, 2, 100])
def test_segment_outside_the_table_adds_nothing(segment):
    model = _new_model()
    outside = model(_IDS, segment_ids=np.full_like(_IDS, segment))
    table = model.embeddings.token_type_embeddings
    table.assign(np.zeros(table.shape))
    np.testing.assert_array_equal(
        outside["embedding_output"], model(_IDS)["embedding_output"]
    )


def test_longest_sequence_passes_and_one_more_token_does_not():
    outputs = _model()(np.zeros([2, 9], np.int32))
    assert outputs["sequence_output"].shape == (2, 9, 12)
    with pytest.raises(ValueError, match=r"max_position_emb.*\(9\).*got 10"):
        _model()(np.zeros([2, 10], np.int32))


def test_initial_weights_are_cut_at_two_sigma():
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(
        _CONFIG, vocab_size=5000, initializer_range=0.02
    )
    for variable in bert.BertModel(config).weights:
        value = variable.numpy()
        if variable.name in ("bias", "beta"):
            assert np.all(value == 0)
        elif variable.name == "gamma":
            assert np.all(value == 1)
        else:
            assert 0 < np.abs(value).max() <= 0.04
    words = bert.BertModel(config).embeddings.word_embeddings.numpy()
    # A normal cut at two sigma keeps 0.880 of its spread.
    assert abs(words.std() - 0.0176) < 2e-4


def test_the_range_of_the_config_is_that_of_next_sentences_not_of_classes():
    # As released: heads of tasks have 0.02, whatever the config says.
    config = dataclasses.replace(_CONFIG, initializer_range=0.5)
    pairs = heads.BertForPreTraining(config).seq_relationship
    assert np.abs(pairs.output_weights).max() > 0.1
    classifier = heads.BertForSequenceClassification(config, num_labels=2)
    assert np.abs(classifier.output_weights).max() <= 0.04


def test_a_model_of_a_policy_leaves_that_of_others():
    before = keras.config.dtype_policy()
    model = bert.BertModel(_CONFIG, dtype="mixed_bfloat16")
    assert model.encoder.stack[0].compute_dtype == "bfloat16"
    assert keras.config.dtype_policy() is before


def test_initial_weights_are_a_function_of_the_seed():
    once, again, other = _new_model(1), _new_model(1), _new_model(2)
    for a, b in zip(once.weights, again.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.any(
        once.embeddings.word_embeddings != other.embeddings.word_embeddings
    )
    # Equal shapes start from different values.
    attention = once.encoder.stack[0].attention.self_attention
    assert np.any(attention.query.kernel != attention.key.kernel)


def test_dropout_is_a_pure_function_of_the_seed():
    model = _model(num_hidden_layers=1)
    step = tf.function(lambda s: model(_IDS, dropout_seed=s)["pooled_output"])
    once, again = step(_SEED), step(_SEED)
    np.testing.assert_array_equal(once, again)
    np.testing.assert_allclose(
        model(_IDS, dropout_seed=_SEED)["pooled_output"], once, atol=1e-5
    )
    assert np.any(once != step(_SEED + 1))
    assert np.any(once != model(_IDS)["pooled_output"])


def test_every_dropout_site_has_its_own_number():
    model = _model()
    sites = [0]
    for layer in model.encoder.stack:
        sites += [
            layer.attention.self_attention.site,
            layer.attention.block_output.site,
            layer.block_output.site,
        ]
    assert sites == list(range(bert.num_dropout_sites(_CONFIG)))


def test_embeddings_are_dropped_and_scaled():
    model = _model(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.0)
    got = model(_IDS, dropout_seed=_SEED)["embedding_output"].numpy()
    want = model(_IDS)["embedding_output"].numpy()
    is_dropped = got == 0
    # Five standard deviations of the draws.
    assert abs(is_dropped.mean() - 0.5) < 2.5 / np.sqrt(got.size)
    np.testing.assert_allclose(got[~is_dropped], 2 * want[~is_dropped], 1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_attention_dropout_alone_changes_the_output_unless_it_is_0(rate):
    model = _model(hidden_dropout_prob=0, attention_probs_dropout_prob=rate)
    got, want = model(_IDS, dropout_seed=_SEED), model(_IDS)
    np.testing.assert_array_equal(
        got["embedding_output"], want["embedding_output"]
    )
    assert np.any(got["pooled_output"] != want["pooled_output"]) == (rate > 0)


@pytest.mark.parametrize(
    ("policy", "tolerance"), [("mixed_bfloat16", 0.1), ("mixed_float16", 0.02)]
)
def test_low_precision_is_close_and_keeps_float32_variables(policy, tolerance):
    model, low = _model(), _model(dtype=policy)
    assert {v.dtype for v in low.weights} == {"float32"}
    want, got = model(_IDS), low(_IDS)
    assert got["sequence_output"].dtype == policy.removeprefix("mixed_")
    error = (
        tf.cast(got["sequence_output"], tf.float32) - want["sequence_output"]
    )
    assert 0 < np.abs(error).max() < tolerance


def test_graph_of_unknown_shape_computes_the_same():
    model = _model(causal=True)
    mask = np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)
    want = model(_IDS, mask, dropout_seed=_SEED)["sequence_output"]
    ids = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(
        lambda ids, mask, seed: model(ids, mask, dropout_seed=seed),
        input_signature=[ids, ids, tf.TensorSpec([2], tf.int32)],
    )
    got = graph(_IDS, mask, _SEED)["sequence_output"]
    np.testing.assert_allclose(got, want, atol=1e-5)
    too_long = np.zeros([2, 10], np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(too_long, too_long, _SEED)
