"""Rows of tokens against `sentence_pairs`, one text at a time."""

import itertools
import types

import pytest
import tensorflow as tf

from bert.tasks import sentence_pairs, token_rows

_TOKENIZER = types.SimpleNamespace(id_of={"[CLS]": 901, "[SEP]": 902}.get)


def _tokens(lengths, first):
    return tf.RaggedTensor.from_row_lengths(
        [first + i for length in lengths for i in range(length)]
        or tf.zeros([0], tf.int32),
        tf.constant(lengths, tf.int64, [len(lengths)]),
    )


def _defined(len_a, len_b, truncation):
    """Returns the ids and segments of a pair, without padding."""
    (pair,) = sentence_pairs.fit(
        list(range(100, 100 + len_a)), list(range(300, 300 + len_b)), truncation
    )
    names = {"[CLS]": 901, "[SEP]": 902}
    tokens, segments = sentence_pairs.join(*pair)
    return [names.get(token, token) for token in tokens], segments


@pytest.mark.parametrize("max_seq_length", [4, 9, 12])
@pytest.mark.parametrize("long_text", ["head", "head_tail"])
def test_rows_are_those_of_one_text_after_the_other(max_seq_length, long_text):
    truncation = sentence_pairs.Truncation(
        max_seq_length=max_seq_length, long_text=long_text
    )
    sizes = list(itertools.product([0, 1, 3, 5, 8, 20], repeat=2))
    got = token_rows.fit(
        _tokens([a for a, _ in sizes], 100),
        _tokens([b for _, b in sizes], 300),
        truncation,
        _TOKENIZER,
    )
    for row, (len_a, len_b) in enumerate(sizes):
        ids, segments = _defined(len_a, len_b, truncation)
        padding = [0] * (got["input_ids"].shape[1] - len(ids))
        assert got["input_ids"][row].numpy().tolist() == ids + padding
        assert got["segment_ids"][row].numpy().tolist() == segments + padding
        mask = [1] * len(ids) + padding
        assert got["input_mask"][row].numpy().tolist() == mask
    assert len(got["input_ids"]) == len(sizes)
    # A batch without texts has a place for the first token.
    none = _tokens([], 1)
    got = token_rows.fit(none, none, truncation, _TOKENIZER)
    assert got["input_ids"].shape == [0, 1]
