"""Tokens to what the network reads, as TensorFlow operations.

A ragged tensor of tokens is `[N, (tokens)]` int32, the ids of each text.
"""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The ids of the tokens that are put around texts."""

    begin: int  # [CLS]
    end: int  # [SEP]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """Rows as the network reads them, each `[R, T]` int32.

    `input_mask` is 1 for a token, 0 for padding; `segment_ids` is 1 for the
    second text and its [SEP].
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor


def no_tokens(like: tf.RaggedTensor) -> tf.RaggedTensor:
    """Makes texts without tokens: `[N, (0)]` for `[N, (tokens)]`."""
    return tf.RaggedTensor.from_row_lengths(
        like.values[:0], tf.zeros_like(like.row_lengths()), validate=False
    )


def slices(
    tokens: tf.RaggedTensor,
    rows: tf.Tensor,
    starts: tf.Tensor,
    lengths: tf.Tensor,
) -> tf.RaggedTensor:
    """Takes a run of tokens out of some rows, perhaps of one row several.

    Args:
        tokens: `[N, (tokens)]`.
        rows: `[R]` int64, in `[0, N)`.
        starts: `[R]` int64, the first token of each run in its row.
        lengths: `[R]` int64, its tokens; all are there.

    Returns:
        `[R, (tokens)]`.
    """
    first = tf.gather(tokens.row_starts(), rows) + starts  # [R]
    places = tf.ragged.range(first, first + lengths)  # [R, (tokens)]
    return places.with_values(tf.gather(tokens.values, places.values))


def joined(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    special: SpecialIds,
    length: int | None = None,
) -> ModelInputs:
    """Lays out [CLS] A [SEP] B [SEP]; no second part where B is empty.

    Args:
        tokens_a: `[R, (tokens)]`.
        tokens_b: `[R, (tokens)]`.
        special: what stands around them.
        length: T; the longest row if None.

    Returns:
        The rows; the ids of padding are 0, as released.
    """
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    has_b = tf.minimum(len_b, 1)
    once = tf.ones_like(len_a)
    ids = tf.concat(
        [
            _repeated(special.begin, once),
            tokens_a,
            _repeated(special.end, once),
            tokens_b,
            _repeated(special.end, has_b),
        ],
        axis=1,
    )
    dense = ids.to_tensor()  # [R, longest]
    # At least one place, so that a batch without rows has a first one too.
    least = 1 if length is None else length
    missing = tf.maximum(least - tf.shape(dense)[1], 0)
    dense = tf.pad(dense, [[0, 0], [0, missing]])  # [R, T]
    if length is not None:
        dense = tf.ensure_shape(dense, [None, length])
    places = tf.range(tf.shape(dense, out_type=tf.int64)[1])  # [T]
    is_token = places < ids.row_lengths()[:, tf.newaxis]  # [R, T]
    is_second = is_token & (places >= len_a[:, tf.newaxis] + 2)
    return ModelInputs(
        input_ids=dense,
        input_mask=tf.cast(is_token, tf.int32),
        segment_ids=tf.cast(is_second, tf.int32),
    )


def _repeated(token: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """Repeats a token: counts `[R]` -> `[R, (tokens)]`."""
    values = tf.fill([tf.reduce_sum(counts)], token)
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def of_client(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    max_seq_length: int,
) -> ModelInputs:
    """Checks rows that a client laid out, each `[B, T]` int32.

    Args:
        input_ids: ids of tokens.
        input_mask: 1 for a token, 0 for padding.
        segment_ids: 1 for the second text.
        max_seq_length: T at most.

    Raises:
        tf.errors.InvalidArgumentError: when the graph runs: the shapes
            differ, or T is 0 or too large.
    """
    shape = tf.shape(input_ids)
    for name, values in (
        ("input_mask", input_mask),
        ("segment_ids", segment_ids),
    ):
        tf.debugging.assert_equal(
            tf.shape(values), shape, f"{name} must have the shape of input_ids"
        )
    tf.debugging.assert_positive(shape[1], "input_ids must have tokens")
    tf.debugging.assert_less_equal(
        shape[1],
        max_seq_length,
        f"A sequence must have at most {max_seq_length} tokens",
    )
    return ModelInputs(
        input_ids=input_ids, input_mask=input_mask, segment_ids=segment_ids
    )
