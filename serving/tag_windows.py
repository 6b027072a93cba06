"""Words to the windows a tagger reads them in, as TensorFlow operations.

The windows are those of `tagging.ner`, for whole batches at once. The words of
all sentences stand one after the other, `W` of them.
"""

import dataclasses

import tensorflow as tf

from serving import inputs
from tasks.tagging import ner


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagWindows:
    """`R` windows, and where the words are in them.

    Attributes:
        tokens: `[R, (tokens)]` int32, without [CLS] and [SEP].
        window_of_word: `[W]` int64, the window that a word is labelled in.
        place_of_word: `[W]` int64, its first piece there, [CLS] being 0.
    """

    tokens: tf.RaggedTensor
    window_of_word: tf.Tensor
    place_of_word: tf.Tensor


def cut(
    pieces: tf.RaggedTensor,
    sentence_lengths: tf.Tensor,
    options: ner.WindowOptions,
) -> TagWindows:
    """Cuts sentences into windows; each word is labelled in just one.

    Args:
        pieces: `[W, (pieces)]` int32, of each word at least one and at most
            `options.room`.
        sentence_lengths: `[S]` int64, the words of each sentence.
        options: with `ner.DOCUMENT` all sentences are one document.
    """
    sizes = pieces.row_lengths()
    offsets = tf.concat([[tf.constant(0, tf.int64)], tf.cumsum(sizes)], 0)
    ends = tf.cumsum(sentence_lengths)  # [S]
    sentence = _Words(
        first=tf.repeat(ends - sentence_lengths, sentence_lengths),
        end=tf.repeat(ends, sentence_lengths),
    )
    outer = sentence
    if options.context == ner.DOCUMENT:
        none = tf.zeros_like(sizes)
        outer = _Words(first=none, end=none + tf.size(sizes, tf.int64))
    stops = _stops(offsets, sentence, options.room)
    begins = _begins(ends - sentence_lengths, ends, stops)  # [W] int32
    first = tf.where(begins > 0)[:, 0]  # [R]
    start, end = _surrounded(
        offsets,
        _Words(first=first, end=tf.gather(stops, first)),
        outer.of(first),
        options.room,
    )
    tokens = inputs.slices(
        _as_one_row(pieces),
        tf.zeros_like(start),
        tf.gather(offsets, start),
        tf.gather(offsets, end) - tf.gather(offsets, start),
    )
    window = tf.cumsum(tf.cast(begins, tf.int64)) - 1  # [W]
    before = tf.gather(offsets, tf.gather(start, window))
    return TagWindows(
        tokens=tokens,
        window_of_word=window,
        place_of_word=1 + offsets[:-1] - before,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Words:
    """Runs of words, `[first, end)` each; both int64 of one shape."""

    first: tf.Tensor
    end: tf.Tensor

    def of(self, index: tf.Tensor) -> "_Words":
        return _Words(
            first=tf.gather(self.first, index), end=tf.gather(self.end, index)
        )


def _stops(offsets, sentence: _Words, room: int):
    """Says where a window that begins at each word would stop: `[W]`."""
    size = tf.gather(offsets, sentence.end) - tf.gather(offsets, sentence.first)
    # As `ner.spans`: in a long sentence half is left for what stands around.
    limit = tf.where(size > room, max(room // 2, 1), room)
    limit = tf.cast(limit, tf.int64)
    reached = _bisect_right(offsets, offsets[:-1] + limit) - 1
    next_word = tf.range(1, tf.size(offsets, tf.int64))
    return tf.minimum(tf.maximum(reached, next_word), sentence.end)


def _begins(firsts, ends, stops):
    """Follows the windows of each sentence: `[W]` int32, 1 where one begins.

    Args:
        firsts: `[S]` int64, the first word of each sentence.
        ends: `[S]` int64.
        stops: `[W]` int64, where a window that begins at a word stops.
    """

    def follow(word, begins):
        open_ones = tf.boolean_mask(word, word < ends)
        begins = tf.tensor_scatter_nd_add(
            begins, open_ones[:, tf.newaxis], tf.ones_like(open_ones, tf.int32)
        )
        last = tf.maximum(tf.size(stops, tf.int64) - 1, 0)
        after = tf.gather(stops, tf.minimum(word, last))
        return tf.where(word < ends, after, word), begins

    _, begins = tf.while_loop(
        lambda word, _: tf.reduce_any(word < ends),
        follow,
        (firsts, tf.zeros_like(stops, tf.int32)),
    )
    return begins


def _surrounded(offsets, inner: _Words, outer: _Words, room: int):
    """Widens runs of words to as many of `outer` as `room` takes.

    Returns:
        Their first words and ends, each `[R]` int64.
    """
    from_piece = tf.gather(offsets, inner.first)
    left = (room - (tf.gather(offsets, inner.end) - from_piece)) // 2
    start = tf.maximum(_bisect_left(offsets, from_piece - left), outer.first)
    reached = _bisect_right(offsets, tf.gather(offsets, start) + room) - 1
    end = tf.minimum(reached, outer.end)
    # What the right side did not need goes to the left.
    reached = _bisect_left(offsets, tf.gather(offsets, end) - room)
    return tf.maximum(reached, outer.first), end


def _bisect_left(offsets, values):
    return tf.searchsorted(offsets, values, "left", tf.int64)


def _bisect_right(offsets, values):
    return tf.searchsorted(offsets, values, "right", tf.int64)


def _as_one_row(pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Puts the pieces of all words into one row: `[1, (pieces)]`."""
    return tf.RaggedTensor.from_row_lengths(
        pieces.values, [tf.size(pieces.values, tf.int64)], validate=False
    )
