"""Packed rows and the sizes to which batches are padded."""

import doctest

import numpy as np
import pytest
import tensorflow as tf

from bert.training import padding

_LENGTH = 12


def _texts(row):
    """Returns the numbers of a row's texts in order, without padding."""
    return list(dict.fromkeys((row[row >= 0] // _LENGTH).tolist()))


def test_each_token_has_one_place_beside_those_of_its_text():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(1, _LENGTH + 1, rng.integers(1, 40))
        rows = padding.pack(lengths, _LENGTH)
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
    rows = padding.pack(np.array([5, 12, 7, 4, 6]), _LENGTH)
    assert [_texts(row) for row in rows] == [[1], [2, 0], [4, 3]]


@pytest.mark.parametrize(
    ("num_texts", "num_rows"), [(7, 7), (8, 12), (12, 12), (13, 16), (17, 17)]
)
def test_rows_have_the_next_of_the_given_numbers(num_texts, num_rows):
    texts = np.full(num_texts, _LENGTH)
    rows = padding.pack(texts, _LENGTH, row_counts=[7, 16, 12])
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
    assert padding.padded_sizes(np.array(sizes), most) == chosen


def test_parts_are_packed_apart_into_equally_many_rows():
    lengths = np.array([12, 12, 12, 4, 4, 4])
    rows = padding.pack(lengths, _LENGTH, num_parts=2)
    first, second = np.split(rows, 2)
    np.testing.assert_array_equal(first, padding.pack(lengths[:3], _LENGTH))
    np.testing.assert_array_equal(
        second[:1], padding.pack(lengths[3:], _LENGTH)
    )
    assert (second[1:] == -1).all()


@pytest.mark.parametrize("num_parts", [1, 2])
def test_row_counts_are_those_of_a_micro_batch(num_parts):
    # Each text fills a row.
    batches = [np.full(4 * num_parts, _LENGTH)] * 5
    assert padding.row_counts(batches, _LENGTH, num_parts) == [4]
    # Choices of one text are packed like texts.
    batches = [np.full((2 * num_parts, 3), _LENGTH)] * 5
    assert padding.row_counts(batches, _LENGTH, num_parts) == [6]


def test_predictions_are_not_cut_with_the_padding_of_texts():
    batch = {
        "input_mask": np.array([[1, 1, 0, 0], [1, 0, 0, 0]]),
        "input_ids": np.array([[7, 8, 0, 0], [9, 0, 0, 0]]),
        "masked_lm_ids": np.array([[7, 8, 9], [9, 0, 0]]),
    }
    tensors = {
        name: tf.constant(value, tf.int32) for name, value in batch.items()
    }
    for cut in (
        padding.trim_to_bucket(tensors, [2, 4]),
        padding.RowPacking(row_length=2).apply(tensors),
    ):
        assert cut["input_ids"].numpy().tolist() == [[7, 8], [9, 0]]
        assert cut["masked_lm_ids"].shape == (2, 3)


def test_rare_batches_of_the_sample_have_their_rows():
    # The mean and four deviations are less than the most rows.
    batches = [np.full(1, 8)] * 200 + [np.full(20, 8)]
    assert padding.row_counts(batches, 8, 1)[-1] == 20


def test_row_counts_reach_beyond_the_sample():
    batches = [np.full(number, _LENGTH) for number in [4, 6] * 8]
    # The mean is 5 and the standard deviation 1.
    assert padding.row_counts(batches, _LENGTH, 1)[-1] == 5 + 4


def test_examples_of_the_docstrings():
    assert doctest.testmod(padding) == (0, 2)
