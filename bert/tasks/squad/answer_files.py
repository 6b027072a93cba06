"""SQuAD results: the chosen answers, their files and scores."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

from bert.files import json_text, messages, paths, writing
from bert.tasks.squad import answer_measures, answer_ranking, answer_scores

SCORES = "eval_results.txt"
PREDICTIONS = "predictions.json"
_NBEST, _NULL_ODDS = "nbest_predictions.json", "null_odds.json"
FILES = (PREDICTIONS, _NBEST, _NULL_ODDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decisions:
    """The chosen answer to every question, by id.

    Attributes:
        texts: the answers; "" for "no answer".
        null_odds: score of "no answer" minus that of the best answer, as a
            difference of logits; None in version 1, or if unknown.
        threshold: of the null odds; above it the answer is "". None in version
            1, or if unknown.
    """

    texts: Mapping[str, str]
    null_odds: Mapping[str, float] | None = None
    threshold: float | None = None


def decide(
    answers: Sequence[answer_ranking.RankedAnswers],
    threshold: float | str = 0.0,
    gold: Mapping[str, Sequence[str]] | None = None,
    scoring: str = answer_measures.SQUAD,
) -> Decisions:
    """Chooses the answer to every question.

    Source: Devlin et al. 2019, §4.3, which uses the best threshold on the
    development set.

    Args:
        answers: ranked answers.
        threshold: in version 2, a difference of logits, or "auto" for the one
            with the best F1 against `gold`.
        gold: gold answer texts by id, for "auto".
        scoring: the measure, of `answer_measures.MEASURES`, for "auto".
    """
    null_odds = {
        answer.qas_id: answer.null_odds
        for answer in answers
        if answer.null_odds is not None
    }
    if not null_odds:  # Version 1.
        return Decisions(texts={a.qas_id: a.prediction() for a in answers})
    if isinstance(threshold, str):  # AUTO.
        texts = {answer.qas_id: answer.best_text() for answer in answers}
        threshold = answer_scores.best_null_threshold(
            gold or {}, texts, null_odds, answer_measures.MEASURES[scoring]
        )
    decided = {a.qas_id: a.prediction(threshold) for a in answers}
    return Decisions(texts=decided, null_odds=null_odds, threshold=threshold)


def write(
    output_dir: str,
    answers: Sequence[answer_ranking.RankedAnswers],
    decisions: Decisions,
) -> None:
    """Writes predictions.json, nbest_predictions.json and null_odds.json.

    As released: indented by 4, ASCII, in the order of the questions;
    null_odds.json in version 2 only.
    """
    files: dict[str, Mapping[str, object]] = {
        PREDICTIONS: decisions.texts,
        _NBEST: {
            answer.qas_id: [dataclasses.asdict(entry) for entry in answer.nbest]
            for answer in answers
        },
    }
    if decisions.null_odds is not None:
        files[_NULL_ODDS] = decisions.null_odds
    texts = {
        name: [json.dumps(value, indent=4) + "\n"]
        for name, value in files.items()
    }
    writing.write_files(output_dir, texts)


def read(path: str, *, version_2_with_negative: bool) -> Decisions:
    """Reads a predictions.json and, in version 2, the null odds next to it.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file has the wrong format.
    """
    texts, null_odds = _by_id(path, str), None
    odds_path = os.path.join(os.path.dirname(path), _NULL_ODDS)
    if version_2_with_negative and paths.exists(odds_path):
        null_odds = _by_id(odds_path, (float, int))
    return Decisions(texts=texts, null_odds=null_odds)


def _by_id(path: str, kind: type | tuple[type, ...]) -> json_text.Object:
    values = json_text.read_object(path)
    return {
        qas_id: json_text.field(values, qas_id, kind, path) for qas_id in values
    }


def score(
    gold: Mapping[str, Sequence[str]],
    decisions: Decisions,
    *,
    version_2_with_negative: bool,
    scoring: str = answer_measures.SQUAD,
) -> dict[str, float]:
    """Scores answers like the official script of their version.

    Texts are scored unchanged, whatever threshold chose them. If the null odds
    are known, the best scores and their thresholds are added.

    Returns:
        The result of `answer_scores.evaluate_v1` or `evaluate_v2`; in version 2
        also `null_score_diff_threshold`, if known.

    Raises:
        ValueError: a question has no null odds.
    """
    measure = answer_measures.MEASURES[scoring]
    if not version_2_with_negative:
        return answer_scores.evaluate_v1(gold, decisions.texts, measure)
    odds = decisions.null_odds
    if odds is not None and (missing := [i for i in gold if i not in odds]):
        raise ValueError(
            f"Every question must have null odds; {messages.listed(missing)} "
            f"have none. Is {_NULL_ODDS} that of other predictions?"
        )
    results = answer_scores.evaluate_v2(gold, decisions.texts, odds, measure)
    if decisions.threshold is not None:
        results["null_score_diff_threshold"] = decisions.threshold
    return results
