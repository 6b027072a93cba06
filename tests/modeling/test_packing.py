"""Packed rows: what they hold, and that they compute what the batch does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, packing
from tests.support import toy_config

_LENGTH = 12
_LENGTHS = np.array([11, 8, 7, 12, 4, 1, 1, 1, 3, 10, 8, 11, 7])
_SEED = np.array([3, 5], np.int32)


def _texts(row):
    """Returns the numbers of a row's texts in order, without padding."""
    return list(dict.fromkeys((row[row >= 0] // _LENGTH).tolist()))


def test_each_token_has_one_place_beside_those_of_its_text():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, _LENGTH + 1, rng.integers(1, 40))
        rows = packing.pack(lengths, _LENGTH)
        assert rows.dtype == np.int32
        want = [
            text * _LENGTH + place
            for text, length in enumerate(lengths)
            for place in range(length)
        ]
        assert sorted(rows[rows >= 0].tolist()) == want
        for row in rows:
            # Text by text from the left, each from its first token.
            held = [
                text * _LENGTH + place
                for text in _texts(row)
                for place in range(lengths[text])
            ]
            held += [-1] * (_LENGTH - len(held))
            assert row.tolist() == held


def test_the_longest_texts_get_the_first_rows_with_space():
    rows = packing.pack(np.array([5, 12, 7, 4, 6]), _LENGTH)
    assert [_texts(row) for row in rows] == [[1], [2, 0], [4, 3]]


@pytest.mark.parametrize(
    ("num_texts", "num_rows"), [(7, 7), (8, 12), (12, 12), (13, 16), (17, 17)]
)
def test_rows_have_the_next_of_the_given_numbers(num_texts, num_rows):
    texts = np.full(num_texts, _LENGTH)
    rows = packing.pack(texts, _LENGTH, row_counts=[7, 16, 12])
    assert len(rows) == num_rows
    assert (rows[:num_texts] >= 0).all()
    assert (rows[num_texts:] == -1).all()


@pytest.mark.parametrize(
    ("sizes", "most", "chosen"),
    [
        ([8, 2, 4, 5, 1, 4], 1, [8]),
        ([8, 2, 4, 5, 1, 4], 2, [5, 8]),
        ([8, 2, 4, 5, 1, 4], 3, [4, 5, 8]),
        ([8, 2, 4, 5, 1, 4], 99, [1, 2, 4, 5, 8]),
        ([40, *range(8, 16)], 4, [11, 14, 40]),
        ([9, 9, 9], 2, [9]),
    ],
)
def test_batches_are_padded_to_sizes_of_equal_shares(sizes, most, chosen):
    assert packing.padded_sizes(np.array(sizes), most) == chosen


def test_parts_are_packed_apart_into_equally_many_rows():
    lengths = np.array([12, 12, 12, 4, 4, 4])
    rows = packing.pack(lengths, _LENGTH, num_parts=2)
    first, second = np.split(rows, 2)
    np.testing.assert_array_equal(first, packing.pack(lengths[:3], _LENGTH))
    np.testing.assert_array_equal(
        second[:1], packing.pack(lengths[3:], _LENGTH)
    )
    assert (second[1:] == -1).all()


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
    got, gradients = results(packing.pack(_LENGTHS, _LENGTH))
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, atol=1e-5, err_msg=name)
    for one, other in zip(gradients, want_gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_choices_are_packed_like_texts():
    keras.utils.set_random_seed(2)
    config = toy_config.config(num_hidden_layers=2, initializer_range=0.3)
    model = heads.BertForMultipleChoice(config)
    inputs = {
        name: value[:12].reshape(4, 3, _LENGTH)
        for name, value in _batch().items()
    }
    packed = packing.pack(_LENGTHS[:12], _LENGTH)
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
    got = model(**inputs, packed=packing.pack(_LENGTHS, _LENGTH))
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
    packed = packing.pack(_LENGTHS, _LENGTH)

    def output(seed):
        return model(**_batch(), packed=packed, dropout_seed=seed)["logits"]

    np.testing.assert_array_equal(output(_SEED), output(_SEED))
    assert np.abs(output(_SEED) - output(None)).max() > 1e-2
    assert np.abs(output(_SEED) - output(_SEED + 1)).max() > 1e-2


@pytest.mark.parametrize("num_parts", [1, 2])
def test_row_counts_are_those_of_a_micro_batch(num_parts):
    # Each text fills a row.
    batches = [np.full(4 * num_parts, _LENGTH)] * 5
    assert packing.row_counts(batches, _LENGTH, num_parts) == [4]
    # Choices of one text are packed like texts.
    batches = [np.full((2 * num_parts, 3), _LENGTH)] * 5
    assert packing.row_counts(batches, _LENGTH, num_parts) == [6]


def test_row_counts_reach_beyond_the_sample():
    batches = [np.full(number, _LENGTH) for number in [4, 6] * 8]
    # The mean is 5 and the standard deviation 1.
    assert packing.row_counts(batches, _LENGTH, 1)[-1] == 5 + 4
