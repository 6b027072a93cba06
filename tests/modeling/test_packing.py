"""Packed rows compute what the batch does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.training import padding
from modeling import heads, packing
from tests.support import toy_config

_LENGTH = 12
_LENGTHS = np.array([11, 8, 7, 12, 4, 1, 1, 1, 3, 10, 8, 11, 7])
_SEED = np.array([3, 5], np.int32)


def _batch():
    rng = np.random.default_rng(1)
    shape = (len(_LENGTHS), _LENGTH)
    mask = (np.arange(_LENGTH) < _LENGTHS[:, np.newaxis]).astype(np.int32)
    return {
        "input_ids": rng.integers(1, 31, shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape).astype(np.int32) * mask,
    }


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (heads.BertForSequenceClassification, {"num_labels": 3}),
        (
            heads.BertForSequenceClassification,
            {"num_labels": 3, "causal": True},
        ),
        (
            heads.BertForSequenceClassification,
            {"num_labels": 3, "bilstm_head": True},
        ),
        (heads.BertForTokenClassification, {"num_labels": 3}),
        (heads.BertForTokenClassification, {"num_labels": 3, "causal": True}),
        (heads.BertForQuestionAnswering, {}),
    ],
)
def test_packed_texts_have_the_same_outputs_and_gradients(make, options):
    keras.utils.set_random_seed(2)
    config = toy_config.config(num_hidden_layers=2, initializer_range=0.3)
    model = make(config, **options)
    model.bert.encoder.recompute = not options
    inputs = _batch()
    mask = inputs["input_mask"]

    def results(packed):
        with tf.GradientTape() as tape:
            outputs = model(**inputs, packed=packed)
            real = {
                name: x * mask.reshape((*mask.shape, *[1] * (x.ndim - 2)))
                if x.shape[1] == _LENGTH
                else x
                for name, x in outputs.items()
            }
            total = sum(tf.reduce_sum(x**3) for x in real.values())
        variables = [v.value for v in model.trainable_variables]
        gradients = tape.gradient(total, variables)
        return real, [
            tf.zeros(v.shape) if g is None else tf.convert_to_tensor(g)
            for v, g in zip(variables, gradients, strict=True)
        ]

    want, want_gradients = results(None)
    got, gradients = results(padding.pack(_LENGTHS, _LENGTH))
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5, err_msg=name)
    for one, other in zip(gradients, want_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_places_of_a_small_batch_by_hand():
    # Texts of 4 tokens and 1, the shorter one in the first row.
    packed = np.array([[4, -1, -1, -1], [0, 1, 2, 3]], np.int32)
    rows = packing.Packing(packed, 2)
    np.testing.assert_array_equal(rows.texts, [[1, -1, -1, -1], [0, 0, 0, 0]])
    np.testing.assert_array_equal(rows.positions[0][:1], [0])
    np.testing.assert_array_equal(rows.positions[1], [0, 1, 2, 3])
    np.testing.assert_array_equal(
        rows.flat_positions, [[4, 5, 6, 7], [0, 0, 0, 0]]
    )
    ids = np.array([[5, 6, 7, 8], [9, 0, 0, 0]], np.int32)
    np.testing.assert_array_equal(rows.packed(ids)[0][:1], [9])
    np.testing.assert_array_equal(rows.packed(ids)[1], ids[0])
    hidden = np.arange(1, 9, dtype=np.float32).reshape(2, 4, 1)
    np.testing.assert_array_equal(
        rows.unpacked(hidden)[..., 0], [[5, 6, 7, 8], [1, 0, 0, 0]]
    )


def test_choices_are_packed_like_texts():
    keras.utils.set_random_seed(2)
    config = toy_config.config(num_hidden_layers=2, initializer_range=0.3)
    model = heads.BertForMultipleChoice(config)
    inputs = {
        name: value[:12].reshape(4, 3, _LENGTH)
        for name, value in _batch().items()
    }
    packed = padding.pack(_LENGTHS[:12], _LENGTH)
    np.testing.assert_allclose(
        model(**inputs, packed=packed)["logits"],
        model(**inputs)["logits"],
        atol=1e-5,
    )


def test_all_outputs_are_those_of_the_texts():
    keras.utils.set_random_seed(2)
    config = toy_config.config(num_hidden_layers=2, initializer_range=0.3)
    model = heads.BertForTokenClassification(config, num_labels=2).bert
    inputs = _batch()
    want = model(**inputs)
    got = model(**inputs, packed=padding.pack(_LENGTHS, _LENGTH))
    real = inputs["input_mask"][..., np.newaxis]
    pairs = [
        (got["embedding_output"], want["embedding_output"]),
        *zip(
            got["all_encoder_layers"], want["all_encoder_layers"], strict=True
        ),
    ]
    for one, other in pairs:
        np.testing.assert_allclose(one, other * real, atol=1e-5)


def test_packed_texts_have_dropout():
    model = heads.BertForTokenClassification(
        toy_config.config(initializer_range=0.3), num_labels=2
    )
    packed = padding.pack(_LENGTHS, _LENGTH)

    def output(seed):
        return model(**_batch(), packed=packed, dropout_seed=seed)["logits"]

    np.testing.assert_array_equal(output(_SEED), output(_SEED))
    assert np.abs(output(_SEED) - output(None)).max() > 1e-2
    assert np.abs(output(_SEED) - output(_SEED + 1)).max() > 1e-2
