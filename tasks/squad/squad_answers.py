"""Start and end logits of windows -> ranked answers in the paragraph's words.

Source: behaviour of run_squad.py of google-research/bert, measured;
Devlin et al. 2019, §4.2 and §4.3.
"""

import collections
import dataclasses
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from files import wording, writing
from tasks.squad import (
    squad,
    squad_features,
    squad_files,
    squad_search,
    squad_text,
)

# As released: the null score of a question without any window. Differs: its
# odds too; the release stops there with an error (docs/differences.md).
NO_ANSWER_ODDS = 1000000.0
_LARGEST = float(np.finfo(np.float32).max)
# As released: the answer of version 1 where none is left.
_EMPTY = ("empty", 0.0, 0.0)


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

    `null_odds` is by how much "no answer" scores above the best answer with
    text, as a difference of logits; None in version 1.
    """

    qas_id: str
    nbest: tuple[Candidate, ...]
    null_odds: float | None

    def best_text(self) -> str:
        """Returns the best answer that has text; "" where none has."""
        return next((c.text for c in self.nbest if c.text), "")

    def prediction(self, null_score_diff_threshold: float = 0.0) -> str:
        """Returns the answer: in version 2 "" if the null odds are higher."""
        if self.null_odds is None:
            return self.nbest[0].text
        if self.null_odds > null_score_diff_threshold:
            return ""
        return self.best_text()


def rank_answers(
    examples: Sequence[squad.SquadExample],
    features: Iterable[squad_features.SquadFeatures],
    results: Iterable[squad_search.WindowLogits],
    options: squad_search.AnswerOptions,
    basic_tokenizer: squad_text.BasicTokenizer,
) -> list[RankedAnswers]:
    """Ranks the answers to every question over all of its windows.

    Args:
        examples: the questions, in the order of the result.
        features: every window of every question.
        results: the logits of every window, in any order.
        options: how answers are searched.
        basic_tokenizer: the one that made the windows, before word pieces.

    Raises:
        ValueError: a window has no logits, or too few, or some that are not
            finite.
    """
    logits_of = {result.unique_id: result for result in results}
    windows_of = collections.defaultdict(list)
    for feature in features:
        windows_of[feature.example_index].append(feature)
    basic_text = squad_text.BasicText(basic_tokenizer)
    answers = []
    for index, example in enumerate(examples):
        windows = windows_of[index]
        if not windows:
            answers.append(_without_windows(example, options))
            continue
        logits = np.array(  # [W, 2, T]
            [squad_search.checked_logits(w, logits_of) for w in windows]
        )
        answers.append(_rank(example, windows, logits, options, basic_text))
    return answers


def predictions(
    answers: Iterable[RankedAnswers], null_score_diff_threshold: float = 0.0
) -> dict[str, str]:
    """Returns the answer to every question, by its id."""
    return {
        answer.qas_id: answer.prediction(null_score_diff_threshold)
        for answer in answers
    }


def write_answers(
    output_dir: str,
    answers: Sequence[RankedAnswers],
    null_score_diff_threshold: float = 0.0,
) -> None:
    """Writes predictions.json, nbest_predictions.json and null_odds.json.

    As released: indented by 4, ASCII, in the order of the questions;
    null_odds.json in version 2 only.
    """
    texts = predictions(answers, null_score_diff_threshold)
    _write_json(output_dir, "predictions.json", texts)
    nbest = {
        answer.qas_id: [dataclasses.asdict(entry) for entry in answer.nbest]
        for answer in answers
    }
    _write_json(output_dir, "nbest_predictions.json", nbest)
    odds = {answer.qas_id: answer.null_odds for answer in answers}
    if None not in odds.values():
        _write_json(output_dir, "null_odds.json", odds)


def read_predictions(path: str) -> dict[str, str]:
    """Reads a predictions.json: the answer to every question, by its id.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not JSON, or not texts by id.
    """
    return _read_by_id(path, lambda value: isinstance(value, str), "a text")


def read_null_odds(path: str) -> dict[str, float]:
    """Reads a null_odds.json: a difference of logits, by question id.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not JSON, or not numbers by id.
    """
    return _read_by_id(path, is_number, "a finite number")


def is_number(value: Any) -> bool:
    """Tells whether a value of JSON is a number that a float32 can hold."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= _LARGEST
    )


def _read_by_id(
    path: str, is_right: Callable[[Any], bool], name: str
) -> dict[str, Any]:
    values = squad_files.read_json(path)
    if not isinstance(values, dict):
        raise ValueError(
            f"{path}: must be an object with {name} for every question id; "
            f"got {type(values).__name__}."
        )
    for qas_id, value in values.items():
        if not is_right(value):
            raise ValueError(
                f"{path}: question {wording.shown(qas_id)} must have {name}; "
                f"got {wording.shown(value)}."
            )
    return values


def _rank(
    example: squad.SquadExample,
    windows: Sequence[squad_features.SquadFeatures],
    logits: np.ndarray,
    options: squad_search.AnswerOptions,
    basic_text: squad_text.BasicText,
) -> RankedAnswers:
    spans = squad_search.ranked_spans(windows, logits, options)
    texts = _distinct_texts(example, windows, spans, basic_text)
    nbest = list(itertools.islice(texts, options.n_best_size))
    if not options.version_2_with_negative:
        return _ranked(example.qas_id, nbest or [_EMPTY])
    null = squad_search.null_span(logits)
    if all(text for text, _, _ in nbest):
        # As released: one more than asked for, if "no answer" is not there.
        nbest.append(("", null.start_logit, null.end_logit))
    return _ranked(example.qas_id, nbest, _null_odds(nbest, null.score))


def _without_windows(
    example: squad.SquadExample, options: squad_search.AnswerOptions
) -> RankedAnswers:
    """Answers a question on an empty paragraph."""
    if not options.version_2_with_negative:
        return _ranked(example.qas_id, [_EMPTY])
    nbest = [("", 0.0, 0.0)]
    return _ranked(example.qas_id, nbest, _null_odds(nbest, NO_ANSWER_ODDS))


def _ranked(
    qas_id: str,
    nbest: Sequence[tuple[str, float, float]],
    null_odds: float | None = None,
) -> RankedAnswers:
    """Gives every (text, start logit, end logit) its share of the softmax."""
    scores = [start + end for _, start, end in nbest]
    best = max(scores)
    weights = [math.exp(score - best) for score in scores]
    total = sum(weights)
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


def _null_odds(
    nbest: Iterable[tuple[str, float, float]], null_score: float
) -> float:
    for text, start_logit, end_logit in nbest:
        if text:
            return null_score - start_logit - end_logit
    # Differs: the release stops with an error where no answer with text is
    # left. Here "no answer" wins at any threshold (README, "Differences from
    # the release").
    return NO_ANSWER_ODDS


def _distinct_texts(
    example: squad.SquadExample,
    windows: Sequence[squad_features.SquadFeatures],
    spans: Iterable[squad_search.Span],
    basic_text: squad_text.BasicText,
) -> Iterator[tuple[str, float, float]]:
    """Yields (text, start logit, end logit); each text once, "" for null."""
    seen = set()
    for span in spans:
        text = ""
        if span.start > 0:
            text = _text(example, windows[span.window], span, basic_text)
            if text in seen:
                continue
        seen.add(text)
        yield text, span.start_logit, span.end_logit


def _text(
    example: squad.SquadExample,
    feature: squad_features.SquadFeatures,
    span: squad_search.Span,
    basic_text: squad_text.BasicText,
) -> str:
    first = feature.token_to_orig_map[span.start]
    last = feature.token_to_orig_map[span.end]
    words = example.doc_tokens[first : last + 1]
    pieces = feature.tokens[span.start : span.end + 1]
    return squad_text.project(
        squad_text.join_pieces(pieces), " ".join(words), basic_text(words)
    )


def _write_json(output_dir: str, name: str, value: Mapping) -> None:
    with writing.whole_file(os.path.join(output_dir, name)) as file:
        # As released: layout and escapes.
        json.dump(value, file, indent=4)
        file.write("\n")
