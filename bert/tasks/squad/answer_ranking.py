"""SQuAD answers: search in the logits of windows, and ranking.

Source: behavior of run_squad.py of google-research/bert, measured;
Devlin et al. 2019, §4.2 and §4.3.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from absl import logging

from bert.commands import flags
from bert.tasks import task
from bert.tasks.squad import question_files, window_features
from vocab import tokenization

ANSWERS = flags.Heading("Answers")
# As released: the null score of a question without any window. Differs: it is
# the null odds too, where the release ends with an error (docs/differences.md).
NO_ANSWER_ODDS = 1000000.0
# As released: the answer of version 1 if none is left.
_EMPTY = ("empty", 0.0, 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Options of the answer search; the defaults are those of run_squad.py.

    With `version_2_with_negative` "no answer" is a candidate, as token 0.
    """

    n_best_size: int = ANSWERS.positive(
        20,
        "Candidate starts and ends per window, and answers in "
        "nbest_predictions.json.",
        of_model=True,
    )
    max_answer_length: int = ANSWERS.positive(
        30,
        "Maximum word pieces of an answer.",
        of_model=True,
    )
    version_2_with_negative: bool = ANSWERS.boolean(
        "The files are of SQuAD 2.0: some questions have no answer.",
        of_model=True,
    )


def window_logits(
    windows: Sequence[window_features.SquadFeatures],
    logits: Mapping[int, np.ndarray],
    *,
    without_padding: bool = False,
) -> np.ndarray:
    """Returns the logits of the `W` windows of a question, `[W, 2, T]` float64.

    Args:
        windows: the windows.
        logits: by `unique_id`, `[2, t]` float, start and end. Positions beyond
            `t <= T`, which are removed padding, score below all others.
        without_padding: whether all padding does. Otherwise the padding that a
            window shares with no other one of its batch competes for the best
            places, so that answers depend on the batches.

    Raises:
        ValueError: a logit is not finite.
    """
    shape = (len(windows), 2, len(windows[0].input_ids))
    # As released: scores are added in float64.
    values = np.full(shape, task.PADDING_LOGIT)
    for row, window in zip(values, windows, strict=True):
        scores = logits[window.unique_id]
        end = len(window.tokens) if without_padding else scores.shape[1]
        row[:, :end] = scores[:, :end]
        if not np.isfinite(row).all():
            raise ValueError(
                "Logits must be finite; those of window "
                f"{window.unique_id} are not. Has the model diverged?"
            )
    return values


def null_window(logits: np.ndarray) -> int:
    """Returns the first window with the lowest score of "no answer".

    Args:
        logits: `[W, 2, T]` float64, start and end.
    """
    return int(np.argmin(logits[:, 0, 0] + logits[:, 1, 0]))


def ranked_spans(
    features: Sequence[window_features.SquadFeatures],
    logits: np.ndarray,
    options: AnswerOptions,
) -> Iterator[tuple[int, int, int]]:
    """Yields the candidate answers to a question, highest score first.

    An answer is a window and its first and last token there, 0 and 0 for "no
    answer". The candidates combine the `n_best_size` highest starts with the
    `n_best_size` highest ends of each window. An answer is in the paragraph, is
    not too long, and starts in the window with the most context there (as
    released, its end need not). Ties are in the order of window, start, end; in
    version 2 "no answer" comes last among ties.

    Args:
        features: the `W` windows of the question.
        logits: `[W, 2, T]` float64, start and end.
        options: of the search.
    """
    can_end = np.zeros(logits[:, 0].shape, bool)  # [W, T]
    can_start = np.zeros_like(can_end)  # [W, T]
    for row, feature in enumerate(features):
        tokens = slice(len(feature.tokens))
        can_end[row, tokens] = feature.token_to_orig_map >= 0
        can_start[row, tokens] = feature.token_is_max_context
    # Stable, so that the first of equal logits wins.
    best = np.argsort(-logits, axis=-1, kind="stable")
    best = best[..., : options.n_best_size]  # [W, 2, n]
    starts, ends = best[:, 0, :, None], best[:, 1, None, :]
    window = np.arange(len(features))[:, None, None]
    length = ends - starts + 1  # [W, n, n]
    is_answer = (
        can_start[window, starts]
        & can_end[window, ends]
        & (length >= 1)
        & (length <= options.max_answer_length)
    )
    windows, i, j = np.nonzero(is_answer)
    starts, ends = best[windows, 0, i], best[windows, 1, j]
    if options.version_2_with_negative:
        windows = np.append(windows, null_window(logits))
        starts, ends = np.append(starts, 0), np.append(ends, 0)
    scores = logits[windows, 0, starts] + logits[windows, 1, ends]
    for k in np.argsort(-scores, kind="stable").tolist():
        yield int(windows[k]), int(starts[k]), int(ends[k])


def final_text(pred_text: str, orig_text: str, tok_text: str) -> str:
    """Returns the text of the paragraph for the word pieces of an answer.

    The words of the paragraph contain too much ("Steve Smith's" for the pieces
    of "steve smith"), the pieces too little (case and accents are lost). The
    pieces are therefore located in the tokenized words, and their offset is
    counted in non-space characters.

        >>> final_text("steve smith", "Steve Smith's", "steve smith ' s")
        'Steve Smith'
        >>> final_text("1895", "(1895-1943).", "( 1895 - 1943 ) .")
        '1895'

    Where tokenization changes the number of characters, here by dropping a
    soft hyphen, all words remain:

        >>> final_text("cooperate", "(co\\xadoperate)", "( cooperate )")
        '(co\\xadoperate)'

    Args:
        pred_text: the pieces of an answer, joined to words.
        orig_text: the words of the paragraph with those pieces.
        tok_text: the basic tokens of `orig_text`, joined by spaces.

    Returns:
        A part of `orig_text`; all of it if the offset cannot be counted because
        tokenization changed the number of characters.
    """
    start = tok_text.find(pred_text)
    if start < 0 or not pred_text or not orig_text:
        logging.debug("%r is not in %r.", pred_text, tok_text)
        return orig_text
    places = [i for i, char in enumerate(orig_text) if char != " "]
    # As released: even if only text after the answer changed its length.
    if len(places) != len(tok_text) - tok_text.count(" "):
        logging.debug("Tokenization changes the length of %r.", orig_text)
        return orig_text
    end = start + len(pred_text) - 1
    if " " in (tok_text[start], tok_text[end]):
        return orig_text
    first = start - tok_text.count(" ", 0, start)
    last = end - tok_text.count(" ", 0, end)
    return orig_text[places[first] : places[last] + 1]


def join_pieces(pieces: Sequence[str]) -> str:
    """Joins word pieces to words with one space between them."""
    text = " ".join(pieces).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A ranked answer; its text is "" for "no answer"."""

    text: str
    probability: float
    start_logit: float
    end_logit: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankedAnswers:
    """The answers to one question, best first.

    `null_odds` is the score of "no answer" minus that of the best answer with
    text, as a difference of logits; None in version 1.
    """

    qas_id: str
    nbest: tuple[Candidate, ...]
    null_odds: float | None

    def best_text(self) -> str:
        """Returns the best answer with text; "" if there is none."""
        return next((c.text for c in self.nbest if c.text), "")

    def prediction(self, null_score_diff_threshold: float = 0.0) -> str:
        """Returns the answer: in version 2 "" if the null odds are higher."""
        if self.null_odds is None:
            return self.nbest[0].text
        if self.null_odds > null_score_diff_threshold:
            return ""
        return self.best_text()


def rank_answers(
    examples: Sequence[question_files.SquadExample],
    features: Iterable[Sequence[window_features.SquadFeatures]],
    logits: Mapping[int, np.ndarray],
    options: AnswerOptions,
    basic_tokenizer: tokenization.BasicTokenizer,
    *,
    without_padding: bool = False,
) -> list[RankedAnswers]:
    """Ranks the answers to every question over all its windows.

    Args:
        examples: the questions, in the order of the result.
        features: the windows of each question.
        logits: of every window; see `window_logits`.
        options: of the search.
        basic_tokenizer: the one that created the windows, before word pieces.
        without_padding: see `window_logits`.

    Raises:
        ValueError: a logit is not finite.
    """
    ranked = []
    for example, windows in zip(examples, features, strict=True):
        if not windows:  # The paragraph is empty.
            is_version_2 = options.version_2_with_negative
            answer = ("", 0.0, 0.0) if is_version_2 else _EMPTY
            odds = NO_ANSWER_ODDS if is_version_2 else None
            ranked.append(_ranked(example.qas_id, [answer], odds))
            continue
        values = window_logits(windows, logits, without_padding=without_padding)
        ranked.append(_rank(example, windows, values, options, basic_tokenizer))
    return ranked


def _rank(
    example: question_files.SquadExample,
    windows: Sequence[window_features.SquadFeatures],
    logits: np.ndarray,
    options: AnswerOptions,
    basic_tokenizer: tokenization.BasicTokenizer,
) -> RankedAnswers:
    # The keys are the texts, "" for "no answer".
    entries: dict[str, tuple[str, float, float]] = {}
    for window, start, end in ranked_spans(windows, logits, options):
        text = ""
        if start > 0:
            text = _text(example, windows[window], start, end, basic_tokenizer)
        if text not in entries:
            start_logit, end_logit = logits[window, [0, 1], [start, end]]
            entries[text] = (text, float(start_logit), float(end_logit))
        if len(entries) == options.n_best_size:
            break
    nbest = list(entries.values())
    if not options.version_2_with_negative:
        return _ranked(example.qas_id, nbest or [_EMPTY])
    null_start, null_end = logits[null_window(logits), :, 0].tolist()
    if "" not in entries:
        # As released: one more than `n_best_size`, if "no answer" is missing.
        nbest.append(("", null_start, null_end))
    # Differs: the release stops with an error if no answer with text is left.
    # Here "no answer" wins at any threshold (docs/differences.md).
    odds = (
        null_start + null_end - start - end
        for text, start, end in nbest
        if text
    )
    return _ranked(example.qas_id, nbest, next(odds, NO_ANSWER_ODDS))


def _ranked(
    qas_id: str,
    nbest: Sequence[tuple[str, float, float]],
    null_odds: float | None = None,
) -> RankedAnswers:
    """Adds the softmax probability to every (text, start logit, end logit)."""
    scores = [start + end for _, start, end in nbest]
    best = max(scores)
    weights = [math.exp(score - best) for score in scores]
    # As released: term by term. From Python 3.12 on, `sum` gives other digits.
    total = functools.reduce(operator.add, weights)
    return RankedAnswers(
        qas_id=qas_id,
        nbest=tuple(
            Candidate(
                text=text,
                probability=weight / total,
                start_logit=start_logit,
                end_logit=end_logit,
            )
            for weight, (text, start_logit, end_logit) in zip(
                weights, nbest, strict=True
            )
        ),
        null_odds=null_odds,
    )


def _text(
    example: question_files.SquadExample,
    feature: window_features.SquadFeatures,
    start: int,
    end: int,
    basic_tokenizer: tokenization.BasicTokenizer,
) -> str:
    first, last = feature.token_to_orig_map[[start, end]]
    words = " ".join(example.doc_tokens[first : last + 1])
    pieces = join_pieces(feature.tokens[start : end + 1])
    return final_text(pieces, words, " ".join(basic_tokenizer.tokenize(words)))
