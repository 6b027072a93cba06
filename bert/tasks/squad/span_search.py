"""Span search for SQuAD in TensorFlow graphs: the best answer of a question.

Paragraphs are split into windows as `bert.tasks.squad.window_features` does.
The answer is the best of all spans of at most `max_answer_length` pieces; the
original searches only among the `n_best_size` best starts and ends of a window.
Its text is the part of the paragraph that the pieces cover.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from bert.tasks import task
from bert.tasks.squad import answer_ranking, question_files, window_features

# The score of a question without a span; finite, for JSON.
NO_SCORE = task.PADDING_LOGIT
_SPACES = f"[{question_files.WHITE_SPACE}]+"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """The `R` windows of B questions, in the order of the questions.

    Attributes:
        question: `[R]` int64, the question of each window.
        starts: `[R]` int64, its first piece in the paragraph.
        lengths: `[R]` int64, its number of pieces of the paragraph.
        offset: `[R]` int64, the position of the first piece in the window.
    """

    question: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    offset: tf.Tensor


def cut_windows(
    num_query_pieces: tf.Tensor,
    num_pieces: tf.Tensor,
    options: window_features.WindowOptions,
) -> Windows:
    """Splits paragraphs into windows; an empty one has none.

    Args:
        num_query_pieces: `[B]` int64, of each question, after truncation.
        num_pieces: `[B]` int64, of each paragraph.
        options: of the windows.
    """
    room = (
        options.max_seq_length
        - window_features.NUM_SPECIAL_TOKENS
        - num_query_pieces
    )  # [B]
    # As released: a stride past the end of a window becomes its length.
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
        offset=2 + tf.gather(num_query_pieces, question),  # [CLS] and [SEP].
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """The best span of each of `B` questions.

    Attributes:
        is_found: `[B]` bool; the others are meaningless where it is not.
        first: `[B]` int64, its first piece in the paragraph.
        last: `[B]` int64.
        score: `[B]` float64, the sum of its logits, or `NO_SCORE`.
        null_odds: `[B]` float64, by how much "no answer" scores above it.
    """

    is_found: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    score: tf.Tensor
    null_odds: tf.Tensor


def best_spans(
    logits: Mapping[str, tf.Tensor],
    windows: Windows,
    num_pieces: tf.Tensor,
    longest: int,
) -> Spans:
    """Finds the best span of each question.

    Args:
        logits: `start_logits` and `end_logits` `[R, T]`.
        windows: their windows.
        num_pieces: `[B]` int64, of each paragraph.
        longest: the most pieces of an answer.
    """
    # Scores are added as float64, as released.
    start, end = (
        tf.cast(logits[name], tf.float64)
        for name in ("start_logits", "end_logits")
    )
    length = tf.shape(start, tf.int64)[1]
    piece = tf.range(length) - windows.offset[:, tf.newaxis]  # [R, T]
    is_inside = (piece >= 0) & (piece < windows.lengths[:, tf.newaxis])
    can_start = _has_most_context(windows, num_pieces, piece, is_inside)
    none = tf.constant(-float("inf"), tf.float64)
    # As released: where an answer ends, another window may show more.
    ends = tf.pad(
        tf.where(is_inside, end, none),
        [[0, 0], [0, longest - 1]],
        constant_values=none,
    )
    band = tf.range(length)[:, tf.newaxis] + tf.range(longest, dtype=tf.int64)
    scores = tf.where(can_start, start, none)[..., tf.newaxis] + tf.gather(
        ends, band, axis=1
    )  # [R, T, longest]
    scores = tf.reshape(scores, [-1, length * longest])
    best = tf.reduce_max(scores, axis=1)  # [R]
    place = tf.argmax(scores, axis=1)
    num_questions = tf.size(num_pieces)
    score = tf.math.unsorted_segment_max(best, windows.question, num_questions)
    window = _first(
        best == tf.gather(score, windows.question), windows, num_questions
    )  # [B]

    def at_window(values: tf.Tensor) -> tf.Tensor:
        # A question without windows has one more.
        return tf.gather(tf.concat([values, [0]], 0), window)

    first = at_window(place // longest - windows.offset + windows.starts)  # [B]
    is_found = score > tf.float64.min
    null = tf.math.unsorted_segment_min(
        start[:, 0] + end[:, 0], windows.question, num_questions
    )
    return Spans(
        is_found=is_found,
        first=first,
        last=first + at_window(place % longest),
        score=tf.where(is_found, score, NO_SCORE),
        null_odds=tf.where(
            is_found, null - score, answer_ranking.NO_ANSWER_ODDS
        ),
    )


def _first(
    chosen: tf.Tensor, windows: Windows, num_questions: tf.Tensor
) -> tf.Tensor:
    """Returns the first of the chosen `[R]` windows of each question, or R."""
    count = tf.size(chosen, tf.int64)
    number = tf.where(chosen, tf.range(count), count)
    first = tf.math.unsorted_segment_min(
        number, windows.question, num_questions
    )
    return tf.minimum(first, count)


def _has_most_context(
    windows: Windows,
    num_pieces: tf.Tensor,
    piece: tf.Tensor,
    is_inside: tf.Tensor,
) -> tf.Tensor:
    # The positions `[R, T]` whose piece no window shows with more context: that
    # on the shorter side, plus a hundredth of the length of the window. The
    # first window wins a tie.
    right = windows.lengths[:, tf.newaxis] - 1 - piece
    context = tf.cast(tf.minimum(piece, right), tf.float64)
    context += 0.01 * tf.cast(windows.lengths[:, tf.newaxis], tf.float64)
    total = tf.reduce_sum(num_pieces)
    first = tf.gather(tf.cumsum(num_pieces, exclusive=True), windows.question)
    # Among the pieces of all paragraphs; -1 is ignored.
    number = (first + windows.starts)[:, tf.newaxis] + piece
    number = tf.where(is_inside, number, -1)
    safe = tf.maximum(number, 0)
    most = tf.math.unsorted_segment_max(context, number, total + 1)
    is_best = is_inside & (context == tf.gather(most, safe))
    window = tf.range(tf.size(windows.starts, tf.int64))[:, tf.newaxis]
    window = tf.broadcast_to(window, tf.shape(piece))
    winner = tf.math.unsorted_segment_min(
        window, tf.where(is_best, number, -1), total + 1
    )
    return is_best & (window == tf.gather(winner, safe))


def texts(
    context: tf.Tensor,
    pieces: Mapping[str, tf.RaggedTensor],
    spans: Spans,
    is_answered: tf.Tensor,
) -> dict[str, tf.Tensor]:
    """Returns the texts of spans, their words separated by one space.

    Args:
        context: `[B]` string, valid UTF-8.
        pieces: `starts` and `ends`, `[B, (pieces)]` int32, of
            `GraphTokenizer.tokenize_with_offsets`.
        spans: in the pieces.
        is_answered: `[B]` bool; the text of the others is "".

    Returns:
        `answer` `[B]` string; `start` and `end` `[B]` int32, -1 for none.
    """

    def character(name: str, piece: tf.Tensor) -> tf.Tensor:
        values = tf.concat([pieces[name].values, [0]], 0)  # There may be none.
        place = tf.where(is_answered, pieces[name].row_starts() + piece, 0)
        return tf.where(is_answered, tf.gather(values, place), -1)

    start = character("starts", spans.first)
    end = character("ends", spans.last)
    text = tf.strings.substr(
        context, tf.maximum(start, 0), end - start, unit="UTF8_CHAR"
    )
    answer = tf.strings.regex_replace(text, _SPACES, " ")
    return {"answer": answer, "start": start, "end": end}
