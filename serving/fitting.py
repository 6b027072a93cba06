"""One text or a pair into the places there are, as TensorFlow operations.

The rules are those of `sentences.sentence_pairs`, for whole batches at once.
"""

import dataclasses

import tensorflow as tf

from serving import inputs
from tasks.classification import sentence_pairs

_SPECIALS_OF_ONE, _SPECIALS_OF_TWO = 2, 3
# Source: Sun et al. 2019, as in `tasks.classification.sentence_pairs`.
_HEAD_TOKENS, _HEAD_TAIL_TOKENS = 128, 510


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fitted:
    """What is read of `N` texts or pairs, in `R` rows.

    Attributes:
        tokens_a: `[R, (tokens)]` int32.
        tokens_b: `[R, (tokens)]` int32; a row is empty for a single text.
        text: `[R]` int64, ascending: the text or pair that a row is of.
    """

    tokens_a: tf.RaggedTensor
    tokens_b: tf.RaggedTensor
    text: tf.Tensor


def fit(
    tokens_a: tf.RaggedTensor,
    tokens_b: tf.RaggedTensor,
    packing: sentence_pairs.Packing,
) -> Fitted:
    """Fits texts as `sentence_pairs.fit` does.

    Args:
        tokens_a: `[N, (tokens)]` int32.
        tokens_b: `[N, (tokens)]` int32.
        packing: what is kept of a text that is too long.
    """
    len_b = tokens_b.row_lengths()
    specials = tf.where(len_b > 0, _SPECIALS_OF_TWO, _SPECIALS_OF_ONE)
    budget = packing.max_seq_length - tf.cast(specials, tf.int64)  # [N]
    if packing.long_text == sentence_pairs.WINDOWS:
        return _windows(tokens_a, tokens_b, budget, packing.window_stride)
    kept_a, kept_b = _kept_lengths(tokens_a.row_lengths(), len_b, budget)
    keep = {
        sentence_pairs.HEAD: _head,
        sentence_pairs.HEAD_TAIL: _head_tail,
    }[packing.long_text]
    return Fitted(
        tokens_a=keep(tokens_a, kept_a),
        tokens_b=keep(tokens_b, kept_b),
        text=_numbers(tokens_a),
    )


def mean_of_texts(rows: tf.Tensor, fitted: Fitted) -> tf.Tensor:
    """Averages the rows of each text: `[R, K]` float -> `[N, K]`."""
    # Rows of one text stand together, and every text has one.
    return tf.math.segment_mean(rows, fitted.text)


def _kept_lengths(len_a, len_b, budget):
    """Does `sentence_pairs.lengths_cut_from_the_longer` without a loop.

    Cut from the longer until both fit, a text shorter than half of the budget
    stays whole; two longer ones end at a half each, A with the odd token.
    """
    half = (budget + 1) // 2
    kept_a = tf.minimum(len_a, tf.maximum(budget - len_b, half))
    return kept_a, tf.minimum(len_b, budget - kept_a)


def _head(tokens, lengths):
    starts = tf.zeros_like(lengths)
    return inputs.slices(tokens, _numbers(tokens), starts, lengths)


def _head_tail(tokens, lengths):
    count = tokens.row_lengths()
    head = tf.where(
        count > lengths,
        lengths * _HEAD_TOKENS // _HEAD_TAIL_TOKENS,
        lengths,
    )
    tail = lengths - head
    rows = _numbers(tokens)
    parts = [
        inputs.slices(tokens, rows, tf.zeros_like(head), head),
        inputs.slices(tokens, rows, count - tail, tail),
    ]
    return tf.concat(parts, axis=1)


def _windows(tokens_a, tokens_b, budget, stride: int | None) -> Fitted:
    """Moves a window over the longer text, beside the whole shorter one."""
    len_a, len_b = tokens_a.row_lengths(), tokens_b.row_lengths()
    slides_a = len_a > len_b
    longer, shorter = tf.maximum(len_a, len_b), tf.minimum(len_a, len_b)
    fixed = tf.minimum(shorter, tf.maximum(budget // 2, budget - longer))
    size = budget - fixed
    wanted = size // 2 if stride is None else tf.constant(stride, tf.int64)
    step = tf.maximum(tf.minimum(wanted, size), 1)
    counts = -(-tf.maximum(longer - size + step, 1) // step)
    text = tf.repeat(_numbers(tokens_a), counts)  # [R]
    starts = tf.ragged.range(counts).values * tf.gather(step, text)
    slid = tf.minimum(tf.gather(size, text), tf.gather(longer, text) - starts)
    is_a = tf.gather(slides_a, text)
    fixed, zero = tf.gather(fixed, text), tf.zeros_like(starts)
    return Fitted(
        tokens_a=inputs.slices(
            tokens_a,
            text,
            tf.where(is_a, starts, zero),
            tf.where(is_a, slid, fixed),
        ),
        tokens_b=inputs.slices(
            tokens_b,
            text,
            tf.where(is_a, zero, starts),
            tf.where(is_a, fixed, slid),
        ),
        text=text,
    )


def _numbers(tokens):
    """Numbers the rows: `[N, (tokens)]` -> `[N]` int64."""
    return tf.range(tokens.nrows())
