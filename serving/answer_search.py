"""The search for answers in paragraphs, as TensorFlow operations.

Paragraphs of B questions are split into windows, and their logits computed
together. Then, one question at a time, the best spans of the windows are
ranked, and the spans with different texts become the answers.

The rules are those of `tasks.squad.squad_features` (windows) and
`tasks.squad.squad_answers` (spans and answers). A question has `w` windows of
T tokens.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tasks.squad import squad_answers, squad_features

# From the first and last piece, `[2]`, to the text and its characters
# (`answerer`).
FindText = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


# ------------------------------------------------------------------- Windows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Windows:
    """The `R` windows of B questions, in the order of the questions.

    Attributes:
        question: `[R]` int64, the question of each window.
        starts: `[R]` int64, its first piece in the paragraph.
        lengths: `[R]` int64, its number of pieces of the paragraph.
        row_splits: `[B + 1]` int64, where the windows of each question begin.
    """

    question: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    row_splits: tf.Tensor


def cut_windows(
    num_query_pieces: tf.Tensor,
    num_pieces: tf.Tensor,
    options: squad_features.WindowOptions,
) -> Windows:
    """Splits paragraphs into windows; an empty one has none.

    Args:
        num_query_pieces: `[B]` int64, of each question, after truncation.
        num_pieces: `[B]` int64, of each paragraph.
        options: of the windows.
    """
    room = (
        options.max_seq_length
        - squad_features.NUM_SPECIAL_TOKENS
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
        row_splits=order.row_splits,
    )


def has_most_context(starts: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns which window shows each piece with the most context.

    The context is that on the shorter side, plus a hundredth of the length of
    the window; the first window wins a tie.

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
    shorter = tf.cast(tf.minimum(left, right), tf.float64)
    share = 0.01 * tf.cast(lengths, tf.float64)
    score = tf.where(shorter >= 0, shorter + share[:, tf.newaxis], -1.0)
    is_best = score == tf.reduce_max(score, axis=0)
    number = tf.range(tf.size(starts))[:, tf.newaxis]  # [w, 1]
    first = tf.reduce_min(
        tf.where(is_best, number, tf.size(starts)), axis=0
    )  # [pieces]
    return number == first


# --------------------------------------------------------------------- Spans


@dataclasses.dataclass(frozen=True, kw_only=True)
class Spans:
    """Candidate answers to one question.

    Attributes:
        pieces: `[S, 2]` int64, first and last piece in the paragraph; -1 for
            "no answer".
        logits: `[S, 2]` float64, of start and end.
        null: `[1, 2]` float64, the logits of "no answer".
    """

    pieces: tf.Tensor
    logits: tf.Tensor
    null: tf.Tensor


def _null_logits(logits: tf.Tensor) -> tf.Tensor:
    """Returns the logits of "no answer" in the first window with its lowest.

    `[w, 2, T]` -> `[1, 2]`; 0 if there is no window.
    """
    nulls = logits[:, :, 0]  # [w, 2]
    scores = tf.reduce_sum(nulls, axis=1)  # [w]
    lowest = tf.where(scores == tf.reduce_min(scores))[:1, 0]
    none = tf.zeros([1, 2], tf.float64)
    return tf.concat([tf.gather(nulls, lowest), none], axis=0)[:1]


def ranked_spans(
    logits: tf.Tensor,
    windows: tuple[tf.Tensor, tf.Tensor],
    offset: tf.Tensor,
    options: squad_answers.AnswerOptions,
) -> Spans:
    """Ranks the candidate answers to a question, highest score first.

    Args:
        logits: `[w, 2, T]` float64, start and end.
        windows: first pieces and lengths, each `[w]` int64.
        offset: `[]` int64, the position of the first piece in a window.
        options: of the search.
    """
    starts, lengths = windows
    most = tf.minimum(options.n_best_size, tf.shape(logits)[-1])
    # The first of equal logits wins.
    top = tf.math.top_k(logits, most)  # [w, 2, n]
    # In pieces of the window: negative in the question, too large in padding.
    best = tf.cast(top.indices, tf.int64) - offset
    first = best[:, 0, :, tf.newaxis]  # [w, n, 1]
    last = best[:, 1, tf.newaxis, :]  # [w, 1, n]
    length = last - first + 1  # [w, n, n]
    # As released: where an answer ends, another window may show more.
    is_answer = (
        _can_start(best[:, 0], starts, lengths)[..., tf.newaxis]
        & (last < lengths[:, tf.newaxis, tf.newaxis])
        & (length >= 1)
        & (length <= options.max_answer_length)
    )
    found = tf.where(is_answer)  # [S, 3]: window, rank of start and of end

    def of_found(each):  # [w, 2, n] -> [S, 2]
        start = tf.gather_nd(each[:, 0], found[:, :2])
        end = tf.gather_nd(each[:, 1], tf.gather(found, [0, 2], axis=1))
        return tf.stack([start, end], axis=1)

    shift = tf.gather(starts, found[:, :1])  # [S, 1]
    pieces, chosen = of_found(best) + shift, of_found(top.values)
    null = _null_logits(logits)
    if options.version_2_with_negative:
        no_piece = tf.constant([[-1, -1]], tf.int64)
        pieces = tf.concat([pieces, no_piece], axis=0)
        chosen = tf.concat([chosen, null], axis=0)
    # Stable: ties stay in their order, and "no answer" is the last of them.
    scores = tf.reduce_sum(chosen, axis=1)
    order = tf.argsort(scores, direction="DESCENDING", stable=True)
    return Spans(
        pieces=tf.gather(pieces, order),
        logits=tf.gather(chosen, order),
        null=null,
    )


def _can_start(first, starts, lengths):
    """Returns which of `[w, n]` pieces have the most context in their window.

    `first` may also have positions outside of the pieces.
    """
    inside = (first >= 0) & (first < lengths[:, tf.newaxis])
    best = has_most_context(starts, lengths)  # [w, pieces]
    piece = tf.where(inside, first + starts[:, tf.newaxis], 0)
    return inside & tf.gather(best, piece, batch_dims=1)


# ------------------------------------------------------------------- Answers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers to one question, best first.

    Attributes:
        texts: `[n]` string; "" for "no answer".
        places: `[n, 2]` int32, first character and the one after the last;
            -1 if the answer is not in the paragraph.
        logits: `[n, 2]` float64, of start and end.
    """

    texts: tf.Tensor
    places: tf.Tensor
    logits: tf.Tensor


def rank(
    spans: Spans,
    options: squad_answers.AnswerOptions,
    find_text: FindText,
) -> tuple[Answers, tf.Tensor]:
    """Selects the best spans with different texts.

    Args:
        spans: the candidates, best first.
        options: of the search.
        find_text: for the paragraph.

    Returns:
        At least one answer, and at most `n_best_size` + 1; and by how much
        "no answer" scores above the best answer with text, `[]` float64.
    """
    answers = _distinct(spans, options.n_best_size, find_text)
    if not options.version_2_with_negative:
        # As released: the answer of version 1 if none is left.
        is_none = tf.size(answers.texts) == 0
        none = tf.zeros([1, 2], tf.float64)
        odds = tf.constant(0.0, tf.float64)
        return _extended(answers, "empty", none, is_none), odds
    without_null = ~tf.reduce_any(answers.texts == "")
    answers = _extended(answers, "", spans.null, without_null)
    return answers, _null_odds(answers, spans.null)


def decide(answers: Answers, null_odds, threshold: float | None) -> tf.Tensor:
    """Chooses one of the answers: its index, `[]` int64.

    Args:
        answers: to a question.
        null_odds: `[]` float64.
        threshold: "no answer" wins above it; None in version 1.
    """
    if threshold is None:
        return tf.constant(0, tf.int64)
    has_text = answers.texts != ""  # [n]
    is_null = (null_odds > threshold) | ~tf.reduce_any(has_text)
    # There is at least one of the kind that is looked for.
    return tf.where(has_text != is_null)[0, 0]


def _distinct(spans: Spans, n_best_size: int, find_text: FindText) -> Answers:
    """Finds texts, best span first, until there are enough different ones."""
    num_spans = tf.shape(spans.pieces)[0]

    def next_span(number, kept, texts, places):
        text, place = tf.cond(
            spans.pieces[number, 0] < 0,
            lambda: (tf.constant(""), tf.constant([-1, -1])),
            lambda: find_text(spans.pieces[number]),
        )
        is_new = [tf.reduce_all(texts != text)]

        def plus(values, value):
            return tf.concat([values, tf.boolean_mask([value], is_new)], 0)

        return number + 1, *map(
            plus, (kept, texts, places), (number, text, place)
        )

    _, kept, texts, places = tf.while_loop(
        lambda number, kept, *_: (
            (number < num_spans) & (tf.size(kept) < n_best_size)
        ),
        next_span,
        (
            tf.constant(0),
            tf.zeros([0], tf.int32),
            tf.zeros([0], tf.string),
            tf.zeros([0, 2], tf.int32),
        ),
        shape_invariants=tuple(
            map(tf.TensorShape, ([], [None], [None], [None, 2]))
        ),
    )
    return Answers(
        texts=texts, places=places, logits=tf.gather(spans.logits, kept)
    )


def _extended(answers: Answers, text: str, logits, condition) -> Answers:
    """Appends an answer that is not in the paragraph, on a condition."""
    last = {"texts": [text], "places": [[-1, -1]], "logits": logits}
    return Answers(
        **{
            name: tf.concat(
                [values, tf.boolean_mask(last[name], [condition])], axis=0
            )
            for name, values in vars(answers).items()
        }
    )


def _null_odds(answers: Answers, null):
    """Compares "no answer" with the best answer that has text: `[]`."""
    best = tf.boolean_mask(answers.logits, answers.texts != "")[:1]  # [0 or 1]
    odds = tf.reduce_sum(null) - best[:, 0] - best[:, 1]
    # As `squad_answers`: without any text "no answer" wins at any threshold.
    none = tf.constant([squad_answers.NO_ANSWER_ODDS], tf.float64)
    return tf.concat([odds, none], axis=0)[0]
