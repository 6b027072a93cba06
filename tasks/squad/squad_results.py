"""SQuAD results: answers, their files and their scores."""

import dataclasses
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from commands import flags
from files import json_text, messages, paths, result_files, writing
from tasks.squad import (
    squad_answers,
    squad_examples,
    squad_features,
    squad_flags,
    squad_metrics,
)

SCORES = "eval_results.txt"
THRESHOLD = "null_score_diff_threshold"  # A key of `SCORES`.
STEP = "global_step"  # Likewise.
PREDICTIONS = "predictions.json"
_NULL_ODDS = "null_odds.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Questions:
    """Questions to be answered.

    Attributes:
        examples: the questions.
        gold: gold answer texts by id; None if not needed.
        features: the windows of all questions; empty before windowing.
    """

    examples: Sequence[squad_examples.SquadExample]
    gold: Mapping[str, Sequence[str]] | None
    features: Sequence[squad_features.SquadFeatures] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """The chosen answer to every question, by id.

    Attributes:
        texts: the answers; "" for "no answer".
        null_odds: score of "no answer" minus that of the best answer, as a
            difference of logits; None in version 1, or if unknown.
        null_score_diff_threshold: above it the answer is ""; None in version
            1, or if unknown.
    """

    texts: Mapping[str, str]
    null_odds: Mapping[str, float] | None = None
    null_score_diff_threshold: float | None = None


def decide(
    answers: Sequence[squad_answers.RankedAnswers],
    threshold: float | str = 0.0,
    gold: Mapping[str, Sequence[str]] | None = None,
) -> Decisions:
    """Chooses the answer to every question.

    Source: Devlin et al. 2019, §4.3, which uses the best threshold on the
    development set.

    Args:
        answers: ranked answers.
        threshold: in version 2, a difference of logits, or "auto" for the one
            with the best F1 against `gold`.
        gold: gold answer texts by id, for "auto".

    """
    null_odds = {
        answer.qas_id: answer.null_odds
        for answer in answers
        if answer.null_odds is not None
    }
    if not null_odds:  # Version 1.
        return Decisions(texts={a.qas_id: a.prediction() for a in answers})
    if isinstance(threshold, str):  # squad_flags.AUTO.
        threshold = squad_metrics.best_null_threshold(
            gold or {},
            {answer.qas_id: answer.best_text() for answer in answers},
            null_odds,
        )
    return Decisions(
        texts={a.qas_id: a.prediction(threshold) for a in answers},
        null_odds=null_odds,
        null_score_diff_threshold=threshold,
    )


def read_questions(
    options: squad_flags.SquadOptions, *, with_gold: bool
) -> Questions:
    """Reads the questions of `predict_file`.

    Args:
        options: of the run.
        with_gold: also read the gold answers; always done for the best
            threshold.

    Raises:
        OSError: the file cannot be opened.
        ValueError: two questions have the same id; the file is not in SQuAD
            format or has the wrong version; or a question has no field
            `answers`, which gold answers need, or no gold answer in version 1.
    """
    dataset = squad_examples.read_version(
        flags.needed(options.predict_file, "predict_file"),
        version_2_with_negative=options.version_2_with_negative,
    )
    gold = None
    if with_gold or options.null_score_diff_threshold == squad_flags.AUTO:
        gold = squad_metrics.gold_answers(dataset)
        if not options.version_2_with_negative:
            squad_metrics.require_answers(gold)
    return Questions(
        examples=squad_examples.prediction_examples(dataset), gold=gold
    )


def decide_and_write(
    questions: Questions,
    answers: Sequence[squad_answers.RankedAnswers],
    options: squad_flags.SquadOptions,
    output_dir: str,
) -> Decisions:
    """Chooses and writes the answer to every question; see `decide`."""
    decisions = decide(
        answers, options.null_score_diff_threshold, questions.gold
    )
    threshold = decisions.null_score_diff_threshold
    if threshold is not None:
        num_empty = sum(not text for text in decisions.texts.values())
        logging.info(
            "%d of %d questions have no answer at "
            "--null_score_diff_threshold=%r",
            num_empty,
            len(answers),
            threshold,
        )
    write_answers(output_dir, answers, decisions)
    return decisions


def write_answers(
    output_dir: str,
    answers: Sequence[squad_answers.RankedAnswers],
    decisions: Decisions,
) -> None:
    """Writes predictions.json, nbest_predictions.json and null_odds.json.

    As released: indented by 4, ASCII, in the order of the questions;
    null_odds.json in version 2 only.
    """
    files: dict[str, Mapping[str, Any]] = {
        PREDICTIONS: decisions.texts,
        "nbest_predictions.json": {
            answer.qas_id: [dataclasses.asdict(entry) for entry in answer.nbest]
            for answer in answers
        },
    }
    if decisions.null_odds is not None:
        files[_NULL_ODDS] = decisions.null_odds
    encoder = json.JSONEncoder(indent=4)
    texts = {
        name: itertools.chain(encoder.iterencode(value), "\n")
        for name, value in files.items()
    }
    writing.write_files(output_dir, texts)


def read_predictions(path: str) -> dict[str, str]:
    """Reads a predictions.json: the answer to every question, by its id.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not a JSON object of texts by id.
    """
    return _read_by_id(path, lambda value: isinstance(value, str), "a text")


def read_null_odds(path: str) -> dict[str, float]:
    """Reads a null_odds.json: a difference of logits, by question id.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not a JSON object of numbers by id.
    """
    return _read_by_id(path, json_text.is_number, "a finite number")


def read_null_threshold(output_dir: str) -> dict[str, float]:
    """Reads the threshold that eval_results.txt in a run's folder reports.

    Returns:
        `null_score_diff_threshold` and, if known, the `global_step` of its
        weights; nothing if there is no file, or it has no threshold.
    """
    path = os.path.join(output_dir, SCORES)
    results = result_files.read(path) if paths.exists(path) else {}
    if THRESHOLD not in results:
        return {}
    found = {THRESHOLD: float(results[THRESHOLD])}
    if STEP in results:
        found[STEP] = int(results[STEP])
    return found


def _read_by_id(
    path: str, is_right: Callable[[Any], bool], name: str
) -> dict[str, Any]:
    values = json_text.read_object(path)
    for qas_id, value in values.items():
        if not is_right(value):
            raise ValueError(
                f"{path}: question {messages.short(qas_id)} must have {name}; "
                f"got {messages.short(value)}."
            )
    return values


def read_given(options: squad_flags.SquadOptions, output_dir: str) -> Decisions:
    """Reads existing answers and their null odds.

    Args:
        options: of the run. By default, `predictions_file` is predictions.json
            in the folder, and `null_odds_file` the null_odds.json next to it.
        output_dir: the run's folder.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file has the wrong format.
    """
    path = options.predictions_file or os.path.join(output_dir, PREDICTIONS)
    texts = read_predictions(path)
    if not options.version_2_with_negative:
        return Decisions(texts=texts)
    odds_path = options.null_odds_file
    if not odds_path:
        beside = os.path.join(os.path.dirname(path), _NULL_ODDS)
        if not paths.exists(beside):
            return Decisions(texts=texts)
        odds_path = beside
    return Decisions(texts=texts, null_odds=read_null_odds(odds_path))


def score(
    gold: Mapping[str, Sequence[str]],
    decisions: Decisions,
    options: squad_flags.SquadOptions,
) -> dict[str, float]:
    """Scores answers like the official script of their version.

    Texts are scored unchanged, whatever threshold chose them. If the null odds
    are known, the best scores and their thresholds are added.

    Returns:
        The result of `squad_metrics.evaluate_v1` or `evaluate_v2`; in version 2
        also `null_score_diff_threshold`, if known.

    Raises:
        ValueError: there is no question, a question has no gold answer in
            version 1, or one has no null odds.
    """
    if not options.version_2_with_negative:
        return squad_metrics.evaluate_v1(gold, decisions.texts)
    results = squad_metrics.evaluate_v2(
        gold, decisions.texts, decisions.null_odds
    )
    if decisions.null_score_diff_threshold is not None:
        results[THRESHOLD] = decisions.null_score_diff_threshold
    return results
