"""The search for answers in paragraphs, as TensorFlow operations.

Paragraphs are cut into windows, of B questions at once; the best spans of each
window are ranked, and the spans of different texts become the answers, one
question at a time.

The rules are those of `tasks.squad.squad_features` (windows) and
`tasks.squad.squad_answers` (spans and answers). A question has `w` windows of
T tokens.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from serving import inputs
from tasks.squad import squad_answers, squad_features

# Given spans of pieces, the text and its characters (see `answer_texts`).
FindText = Callable[
    [tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]
]


# ------------------------------------------------------------------- Windows


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


def cut_windows(
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


def window_rows(
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


# --------------------------------------------------------------------- Spans


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
    best = has_most_context(starts, lengths)  # [w, pieces]
    piece = tf.where(inside, first + starts[:, tf.newaxis], 0)
    return inside & tf.gather(best, piece, batch_dims=1)


def _with_null(spans: Spans, null) -> Spans:
    no_piece = tf.fill([tf.shape(null)[0]], tf.constant(-1, tf.int64))
    return Spans(
        first=tf.concat([spans.first, no_piece], 0),
        last=tf.concat([spans.last, no_piece], 0),
        logits=tf.concat([spans.logits, null], 0),
    )


# ------------------------------------------------------------------- Answers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers to one question, best first.

    Attributes:
        texts: `[n]` string; "" for "no answer".
        places: `[n, 2]` int32, first character and the one after the last;
            -1 where the answer is not in the paragraph.
        logits: `[n, 2]` float64, of start and end.
    """

    texts: tf.Tensor
    places: tf.Tensor
    logits: tf.Tensor

    @property
    def scores(self) -> tf.Tensor:
        """The sums of the two logits, `[n]` float64."""
        return tf.reduce_sum(self.logits, axis=1)

    def probabilities(self) -> tf.Tensor:
        """The share of each in the softmax of the scores, `[n]` float64."""
        return tf.nn.softmax(self.scores)


def rank(
    spans: Spans,
    null: tf.Tensor,
    options: squad_answers.AnswerOptions,
    find_text: FindText,
) -> tuple[Answers, tf.Tensor]:
    """Keeps the best spans of different texts.

    Args:
        spans: the possible answers, best first.
        null: logits of "no answer", `[1, 2]` float64; `[0, 2]` for a
            paragraph without pieces.
        options: how answers are searched.
        find_text: of the paragraph.

    Returns:
        At least one answer, and at most one more than `n_best_size`; and by
        how much "no answer" scores above the best with text, `[]` float64.
    """
    answers = _distinct(spans, options.n_best_size, find_text)
    if not options.version_2_with_negative:
        # As released: the answer of version 1 where none is left.
        is_none = tf.size(answers.texts) == 0
        return _with(answers, "empty", tf.zeros([1, 2]), is_none), tf.constant(
            0.0, tf.float64
        )
    without_null = ~tf.reduce_any(answers.texts == "")
    # Nothing is read of an empty paragraph: no window, and logits of 0.
    null = tf.concat([null, tf.zeros([1, 2], tf.float64)], 0)[:1]
    answers = _with(answers, "", null, without_null)
    return answers, _null_odds(answers, null)


def decide(answers: Answers, null_odds, threshold: float | None) -> tf.Tensor:
    """Chooses one of the answers: its number, `[]` int64.

    Args:
        answers: to a question.
        null_odds: `[]` float64.
        threshold: "no answer" wins above it; None in version 1.
    """
    if threshold is None:
        return tf.constant(0, tf.int64)
    has_text = answers.texts != ""  # [n]
    is_null = (null_odds > threshold) | ~tf.reduce_any(has_text)
    # Of one kind there is one at least where it is looked for.
    return tf.where(has_text != is_null)[0, 0]


def _distinct(spans: Spans, n_best_size: int, find_text: FindText) -> Answers:
    """Finds texts, best span first, until there are enough different ones."""
    num_spans = tf.size(spans.first)

    def next_span(number, kept, texts, places):
        first = spans.first[number]
        text, start, end = tf.cond(
            first < 0,
            lambda: (tf.constant(""), tf.constant(-1), tf.constant(-1)),
            lambda: find_text(first, spans.last[number]),
        )
        is_new = [tf.reduce_all(texts != text)]

        def plus(values, value):
            return tf.concat([values, tf.boolean_mask([value], is_new)], 0)

        return (
            number + 1,
            plus(kept, number),
            plus(texts, text),
            plus(places, tf.stack([start, end])),
        )

    def goes_on(number, kept, *_):
        return (number < num_spans) & (tf.size(kept) < n_best_size)

    _, kept, texts, places = tf.while_loop(
        goes_on,
        next_span,
        (
            tf.constant(0),
            tf.zeros([0], tf.int32),
            tf.zeros([0], tf.string),
            tf.zeros([0, 2], tf.int32),
        ),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None]),
            tf.TensorShape([None]),
            tf.TensorShape([None, 2]),
        ),
    )
    return Answers(
        texts=texts, places=places, logits=tf.gather(spans.logits, kept)
    )


def _with(answers: Answers, text: str, logits, is_wanted) -> Answers:
    """Adds an answer that is not in the paragraph, if it is wanted."""
    wanted = [is_wanted]
    logits = tf.cast(logits, tf.float64)
    return Answers(
        texts=tf.concat(
            [answers.texts, tf.boolean_mask([text], wanted)], axis=0
        ),
        places=tf.concat(
            [answers.places, tf.boolean_mask([[-1, -1]], wanted)], axis=0
        ),
        logits=tf.concat(
            [answers.logits, tf.boolean_mask(logits, wanted)], axis=0
        ),
    )


def _null_odds(answers: Answers, null):
    """Compares "no answer" with the best answer that has text: `[]`."""
    best = tf.boolean_mask(answers.logits, answers.texts != "")[:1]  # [0 or 1]
    odds = tf.reduce_sum(null) - best[:, 0] - best[:, 1]
    # As `squad_answers`: without any text "no answer" wins at any threshold.
    none = tf.constant([squad_answers.NO_ANSWER_ODDS], tf.float64)
    return tf.concat([odds, none], axis=0)[0]
