"""The n best answers to one question, as TensorFlow operations.

The rules are those of `tasks.squad.squad_answers`.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from serving import answer_search
from tasks.squad import squad_answers

# Given spans of pieces, the text and its characters (see `answer_texts`).
FindText = Callable[
    [tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]
]


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
    spans: answer_search.Spans,
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


def _distinct(
    spans: answer_search.Spans, n_best_size: int, find_text: FindText
) -> Answers:
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
