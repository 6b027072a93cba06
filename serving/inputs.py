"""Model inputs from tokens: rows, truncation and padding, in TensorFlow.

The ids of texts are ragged tensors, `[N, (tokens)]` int32.
"""

import dataclasses

import tensorflow as tf

from tasks.classification import sentence_pairs

_SPECIALS_OF_ONE, _SPECIALS_OF_TWO = 2, 3
# Source: Sun et al. 2019, as in `tasks.classification.sentence_pairs`.
_HEAD_TOKENS, _HEAD_TAIL_TOKENS = 128, 510


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpecialIds:
    """The ids of the special tokens around texts."""

    begin: int  # [CLS]
    end: int  # [SEP]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelInputs:
    """The inputs of the model, each `[R, T]` int32.

    `input_mask` is 1 for a token, 0 for padding; `segment_ids` is 1 for the
    second text and its [SEP].
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor


def no_tokens(like: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns empty texts: `[N, (0)]` for `[N, (tokens)]`."""
    return tf.RaggedTensor.from_row_lengths(
        like.values[:0], tf.zeros_like(like.row_lengths()), validate=False
    )


def repeated(token: int, counts: tf.Tensor) -> tf.RaggedTensor:
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
        tokens: `[N, (tokens)]`.
        rows: `[R]` int64, in `[0, N)`.
        starts: `[R]` int64, the first token of each slice in its row.
        lengths: `[R]` int64; no slice ends after its row.

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
    """Makes rows of [CLS] A [SEP] B [SEP]; no second part if B is empty.

    Args:
        tokens_a: `[R, (tokens)]`.
        tokens_b: `[R, (tokens)]`.
        special: the ids of [CLS] and [SEP].
        length: T; the longest row if None.

    Returns:
        The rows; the padding id is 0, as released.
    """
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    once = tf.ones_like(len_a)
    ids = tf.concat(
        [
            repeated(special.begin, once),
            tokens_a,
            repeated(special.end, once),
            tokens_b,
            repeated(special.end, tf.minimum(len_b, 1)),
        ],
        axis=1,
    )
    dense = ids.to_tensor()  # [R, longest]
    # At least one position, so that a batch without rows has a first one too.
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


def of_client(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    max_seq_length: int,
) -> ModelInputs:
    """Checks rows that a client made, each `[..., T]` int32.

    Args:
        input_ids: ids of tokens.
        input_mask: 1 for a token, 0 for padding.
        segment_ids: 1 for the second text.
        max_seq_length: the limit of T.

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
    tf.debugging.assert_positive(shape[-1], "input_ids must have tokens")
    tf.debugging.assert_less_equal(
        shape[-1],
        max_seq_length,
        f"A sequence must have at most {max_seq_length} tokens",
    )
    return ModelInputs(
        input_ids=input_ids, input_mask=input_mask, segment_ids=segment_ids
    )


# ------------------------------------------------------ Truncation and windows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """`N` texts or pairs after truncation, or split into windows: `R` rows.

    Attributes:
        tokens_a: `[R, (tokens)]` int32.
        tokens_b: `[R, (tokens)]` int32; a row is empty for a single text.
        text: `[R]` int64, ascending: the index of the text or pair.
    """

    tokens_a: tf.RaggedTensor
    tokens_b: tf.RaggedTensor
    text: tf.Tensor

    def rows(self, special: SpecialIds) -> ModelInputs:
        """Makes the rows."""
        return joined(self.tokens_a, self.tokens_b, special)


def fit(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    packing: sentence_pairs.Packing,
) -> Fitted:
    """Truncates or splits texts as `sentence_pairs.fit` does.

    Args:
        tokens_a: `[N, (tokens)]` int32.
        tokens_b: `[N, (tokens)]` int32.
        packing: the rule.
    """
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    specials = tf.where(len_b > 0, _SPECIALS_OF_TWO, _SPECIALS_OF_ONE)
    budget = packing.max_seq_length - tf.cast(specials, tf.int64)  # [N]
    if packing.long_text == sentence_pairs.WINDOWS:
        return _windows(tokens_a, tokens_b, budget, packing.window_stride)
    # `sentence_pairs.truncated_lengths` without a loop: a text
    # shorter than half of the budget stays complete; two longer ones get half
    # each, A the odd token.
    half = (budget + 1) // 2
    kept_a = tf.minimum(len_a, tf.maximum(budget - len_b, half))
    kept_b = tf.minimum(len_b, budget - kept_a)
    is_head = packing.long_text == sentence_pairs.HEAD
    keep = _head if is_head else _head_tail
    return Fitted(
        tokens_a=keep(tokens_a, kept_a),
        tokens_b=keep(tokens_b, kept_b),
        text=_numbers(tokens_a),
    )


def _head(tokens, lengths):
    starts = tf.zeros_like(lengths)
    return slices(tokens, _numbers(tokens), starts, lengths)


def _head_tail(tokens, lengths):
    count = tokens.row_lengths()
    head = tf.where(
        count > lengths,
        lengths * _HEAD_TOKENS // _HEAD_TAIL_TOKENS,
        lengths,
    )
    tail = lengths - head
    last = slices(tokens, _numbers(tokens), count - tail, tail)
    return tf.concat([_head(tokens, head), last], axis=1)


def _windows(tokens_a, tokens_b, budget, stride: int | None) -> Fitted:
    """Moves a window over the longer text, with the complete shorter one."""
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    longer, shorter = tf.maximum(len_a, len_b), tf.minimum(len_a, len_b)
    fixed = tf.minimum(shorter, tf.maximum(budget // 2, budget - longer))
    size = budget - fixed
    wanted = size // 2 if stride is None else tf.constant(stride, tf.int64)
    step = tf.maximum(tf.minimum(wanted, size), 1)
    counts = -(-tf.maximum(longer - size + step, 1) // step)
    text = tf.repeat(_numbers(tokens_a), counts)  # [R]
    starts = tf.ragged.range(counts).values * tf.gather(step, text)
    slid = tf.minimum(tf.gather(size, text), tf.gather(longer, text) - starts)
    slides_a = tf.gather(len_a > len_b, text)
    fixed, zero = tf.gather(fixed, text), tf.zeros_like(starts)

    def part(tokens, slides):
        return slices(
            tokens,
            text,
            tf.where(slides, starts, zero),
            tf.where(slides, slid, fixed),
        )

    return Fitted(
        tokens_a=part(tokens_a, slides_a),
        tokens_b=part(tokens_b, ~slides_a),
        text=text,
    )


def _numbers(tokens):
    """Returns the indices of the rows: `[N, (tokens)]` -> `[N]` int64."""
    return tf.range(tokens.nrows())
