"""Rows of tokens in TensorFlow graphs: [CLS] A [SEP] B [SEP], padded.

The ids of texts are ragged tensors, `[N, (tokens)]` int32.
"""

import tensorflow as tf

from bert.tasks import sentence_pairs
from vocab import graph_tokenizer

# The inputs of a network by name, each `[R, T]` int32.
Rows = dict[str, tf.Tensor]


def repeat(token: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """Repeats a token: counts `[R]` -> `[R, (tokens)]`."""
    values = tf.fill([tf.reduce_sum(counts)], token)
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def slices(
    tokens: tf.RaggedTensor,
    rows: tf.Tensor,
    starts: tf.Tensor,
    lengths: tf.Tensor,
) -> tf.RaggedTensor:
    """Returns slices of rows, possibly several of one row.

    Args:
        tokens: `[N, (tokens)]` int32.
        rows: `[R]` int64, the row of each slice.
        starts: `[R]` int64, its first token in the row.
        lengths: `[R]` int64.

    Returns:
        `[R, (tokens)]` int32.
    """
    first = tf.gather(tokens.row_starts(), rows) + starts  # [R]
    places = tf.ragged.range(first, first + lengths)  # [R, (tokens)]
    return places.with_values(tf.gather(tokens.values, places.values))


def join(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> Rows:
    """Makes rows of [CLS] A [SEP] B [SEP], as long as the longest.

    Without B there is no second part. `input_mask` is 1 for a token, 0 for
    padding; `segment_ids` is 1 for the second text and its [SEP].
    """
    begin, end = map(tokenizer.id_of, ("[CLS]", "[SEP]"))
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    once = tf.ones_like(len_a)
    ids = tf.concat(
        [
            repeat(begin, once),
            tokens_a,
            repeat(end, once),
            tokens_b,
            repeat(end, tf.minimum(len_b, 1)),
        ],
        axis=1,
    )
    dense = ids.to_tensor()  # [R, longest]
    # There is at least one position, so that a batch without rows has a first
    # one too.
    missing = tf.maximum(1 - tf.shape(dense)[1], 0)
    dense = tf.pad(dense, [[0, 0], [0, missing]])  # [R, T]
    places = tf.range(tf.shape(dense, out_type=tf.int64)[1])  # [T]
    is_token = places < ids.row_lengths()[:, tf.newaxis]  # [R, T]
    is_second = is_token & (places >= len_a[:, tf.newaxis] + 2)
    return {
        "input_ids": dense,
        "input_mask": tf.cast(is_token, tf.int32),
        "segment_ids": tf.cast(is_second, tf.int32),
    }


def fit(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    truncation: sentence_pairs.Truncation,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> Rows:
    """Makes a row of each text or pair, truncated as by `sentence_pairs.fit`.

    Args:
        tokens_a: `[N, (tokens)]` int32.
        tokens_b: `[N, (tokens)]` int32; empty for a single text.
        truncation: the rule, other than `WINDOWS`.
        tokenizer: has the ids of [CLS] and [SEP].
    """
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    num_special = 2 + tf.minimum(len_b, 1)
    budget = truncation.max_seq_length - num_special  # [N]
    # A text shorter than half of the budget stays complete; two longer ones get
    # half each, A the odd token. `sentence_pairs.truncated_lengths` agrees.
    half = (budget + 1) // 2
    kept_a = tf.minimum(len_a, tf.maximum(budget - len_b, half))
    kept_b = tf.minimum(len_b, budget - kept_a)
    is_head = truncation.long_text == sentence_pairs.HEAD
    keep = _head if is_head else _head_tail
    return join(keep(tokens_a, kept_a), keep(tokens_b, kept_b), tokenizer)


def _head(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    rows = tf.range(tokens.nrows())
    return slices(tokens, rows, tf.zeros_like(lengths), lengths)


def _head_tail(tokens: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    # If a text fits, both parts together are all of it.
    head = (
        lengths * sentence_pairs.HEAD_TOKENS // sentence_pairs.HEAD_TAIL_TOKENS
    )
    tail = lengths - head
    starts = tokens.row_lengths() - tail
    last = slices(tokens, tf.range(tokens.nrows()), starts, tail)
    return tf.concat([_head(tokens, head), last], axis=1)
