"""Paragraphs to the windows that are read of them, as TensorFlow operations.

The windows are those of `tasks.squad.squad_features`, for whole batches
at once.
"""

import dataclasses

import tensorflow as tf

from serving import inputs
from tasks.squad import squad_features


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """The `R` windows of B questions, those of one question together.

    Attributes:
        question: `[R]` int64, the question that a window is of.
        starts: `[R]` int64, its first piece in the paragraph.
        lengths: `[R]` int64, its pieces of the paragraph.
        row_splits: `[B + 1]` int64, where the windows of each question begin.
    """

    question: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    row_splits: tf.Tensor


def cut(
    num_query_pieces: tf.Tensor,
    num_pieces: tf.Tensor,
    options: squad_features.WindowOptions,
) -> Windows:
    """Lays windows over paragraphs; over an empty one none.

    Args:
        num_query_pieces: `[B]` int64, of each question, not too many.
        num_pieces: `[B]` int64, of each paragraph.
        options: how paragraphs are cut.
    """
    room = (
        options.max_seq_length
        - squad_features.NUM_SPECIAL_TOKENS
        - num_query_pieces
    )  # [B]
    # As released: a stride past the end of a window is cut to its length.
    step = tf.minimum(room, options.doc_stride)
    later = -(-tf.maximum(num_pieces - room, 0) // step)
    counts = tf.where(num_pieces > 0, 1 + later, 0)  # [B]
    order = tf.ragged.range(counts)  # [B, (windows)]
    question = order.value_rowids()
    starts = order.values * tf.gather(step, question)
    return Windows(
        question=question,
        starts=starts,
        lengths=tf.minimum(
            tf.gather(num_pieces, question) - starts, tf.gather(room, question)
        ),
        row_splits=order.row_splits,
    )


def rows(
    query: tf.RaggedTensor,
    pieces: tf.RaggedTensor,
    windows: Windows,
    special: inputs.SpecialIds,
    length: int,
) -> inputs.ModelInputs:
    """Lays windows out: [CLS] question [SEP] part of the paragraph [SEP].

    Args:
        query: `[B, (pieces)]` int32, the questions.
        pieces: `[B, (pieces)]` int32, the paragraphs.
        windows: over those.
        special: [CLS] and [SEP].
        length: T. Padding competes for the best places, so that answers far
            down the list depend on it; here it is as the script has it.
    """
    whole = tf.gather(query.row_lengths(), windows.question)
    return inputs.joined(
        inputs.slices(query, windows.question, tf.zeros_like(whole), whole),
        inputs.slices(
            pieces, windows.question, windows.starts, windows.lengths
        ),
        special,
        length,
    )


def has_most_context(starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Tells which window shows each piece with the most context.

    Context is what the window has on the poorer side, plus a hundredth of its
    length; of equals the first wins.

    Args:
        starts: `[w]` int64, the windows of one question.
        lengths: `[w]` int64.

    Returns:
        `[w, pieces]` bool, in each column true once.
    """
    ends = starts + lengths
    piece = tf.range(tf.maximum(tf.reduce_max(ends), 0))  # [pieces]
    left = piece - starts[:, tf.newaxis]  # [w, pieces]
    right = ends[:, tf.newaxis] - 1 - piece  # [w, pieces]
    poorer = tf.cast(tf.minimum(left, right), tf.float64)
    share = 0.01 * tf.cast(lengths, tf.float64)
    score = tf.where(poorer >= 0, poorer + share[:, tf.newaxis], -1.0)
    is_best = score == tf.reduce_max(score, axis=0)
    number = tf.range(tf.size(starts))[:, tf.newaxis]  # [w, 1]
    first = tf.reduce_min(
        tf.where(is_best, number, tf.size(starts)), axis=0
    )  # [pieces]
    return number == first
