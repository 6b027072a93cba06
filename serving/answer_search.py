"""The search for the best spans in logits, as TensorFlow operations.

The rules are those of `tasks.squad.squad_answers`, for one question at a
time, with `w` windows of T tokens.
"""

import dataclasses

import tensorflow as tf

from serving import answer_windows
from tasks.squad import squad_answers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """Possible answers of one question.

    Attributes:
        first: `[S]` int64, the first piece of the paragraph; -1 where the
            span is "no answer".
        last: `[S]` int64, the last piece.
        logits: `[S, 2]` float64, of start and end.
    """

    first: tf.Tensor
    last: tf.Tensor
    logits: tf.Tensor

    @property
    def scores(self) -> tf.Tensor:
        """The sums of the two logits, `[S]` float64."""
        return tf.reduce_sum(self.logits, axis=1)

    def of(self, index: tf.Tensor) -> "Spans":
        """Picks spans."""
        return Spans(
            first=tf.gather(self.first, index),
            last=tf.gather(self.last, index),
            logits=tf.gather(self.logits, index),
        )


def null_logits(logits: tf.Tensor) -> tf.Tensor:
    """Finds "no answer" where it scores lowest, the first window of equals.

    Args:
        logits: `[w, 2, T]` float64, start and end.

    Returns:
        `[1, 2]` float64; `[0, 2]` where there is no window.
    """
    nulls = logits[:, :, 0]  # [w, 2]
    scores = tf.reduce_sum(nulls, axis=1)  # [w]
    lowest = tf.where(scores == tf.reduce_min(scores))[:1, 0]
    return tf.gather(nulls, lowest)


def ranked_spans(
    logits: tf.Tensor,
    windows: tuple[tf.Tensor, tf.Tensor],
    offset: tf.Tensor,
    options: squad_answers.AnswerOptions,
) -> Spans:
    """Ranks the possible answers of a question, highest score first.

    Args:
        logits: `[w, 2, T]` float64, start and end.
        windows: first pieces and lengths, each `[w]` int64.
        offset: `[]` int64, the token of a window's first piece.
        options: how answers are searched.
    """
    starts, lengths = windows
    most = tf.minimum(options.n_best_size, tf.shape(logits)[-1])
    # Of equal logits the first position is the better one.
    best = tf.math.top_k(logits, most).indices  # [w, 2, n]
    # In pieces of the window: negative in the question, too large in padding.
    best = tf.cast(best, tf.int64) - offset
    first = best[:, 0, :, tf.newaxis]  # [w, n, 1]
    last = best[:, 1, tf.newaxis, :]  # [w, 1, n]
    size = lengths[:, tf.newaxis, tf.newaxis]
    length = last - first + 1  # [w, n, n]
    # As released: where an answer ends, another window may show more.
    is_answer = (
        _can_start(best[:, 0], starts, lengths)[..., tf.newaxis]
        & (last < size)
        & (length >= 1)
        & (length <= options.max_answer_length)
    )
    found = tf.where(is_answer)  # [S, 3]: window, rank of start and of end
    window = found[:, 0]
    first = tf.gather_nd(best[:, 0], found[:, :2])
    last = tf.gather_nd(best[:, 1], tf.gather(found, [0, 2], axis=1))
    token = tf.stack([first, last], axis=1) + offset  # [S, 2]
    side = tf.zeros_like(token) + tf.constant([0, 1], tf.int64)
    windows_twice = tf.repeat(window[:, tf.newaxis], 2, axis=1)
    chosen = tf.gather_nd(logits, tf.stack([windows_twice, side, token], 2))
    shift = tf.gather(starts, window)
    spans = Spans(first=first + shift, last=last + shift, logits=chosen)
    if options.version_2_with_negative:
        spans = _with_null(spans, null_logits(logits))
    # Stable: TensorFlow gives equals in their order. "No answer" is the last.
    order = tf.argsort(spans.scores, direction="DESCENDING", stable=True)
    return spans.of(order)


def _can_start(first, starts, lengths):
    """Tells which pieces have the most context in their window.

    Args:
        first: `[w, n]` int64, pieces of the window, or places outside.
        starts: `[w]` int64.
        lengths: `[w]` int64.
    """
    inside = (first >= 0) & (first < lengths[:, tf.newaxis])
    best = answer_windows.has_most_context(starts, lengths)  # [w, pieces]
    piece = tf.where(inside, first + starts[:, tf.newaxis], 0)
    return inside & tf.gather(best, piece, batch_dims=1)


def _with_null(spans: Spans, null) -> Spans:
    no_piece = tf.fill([tf.shape(null)[0]], tf.constant(-1, tf.int64))
    return Spans(
        first=tf.concat([spans.first, no_piece], 0),
        last=tf.concat([spans.last, no_piece], 0),
        logits=tf.concat([spans.logits, null], 0),
    )
