"""The official scores of SQuAD 1.1 and 2.0, and the best null threshold.

Source: behavior of evaluate-v1.1.py and evaluate-v2.0.py of SQuAD, which
differ in the score of an empty text.
"""

import itertools
from collections.abc import Callable, Collection, Mapping

import numpy as np

from bert.tasks.squad import answer_measures, question_files

SQUAD = answer_measures.MEASURES[answer_measures.SQUAD]


def evaluate_v1(
    gold: Mapping[str, Collection[str]],
    predictions: Mapping[str, str],
    measure: answer_measures.Measure = SQUAD,
) -> dict[str, float]:
    """Scores predictions like the official script of SQuAD 1.1.

    A question without a prediction scores 0; a prediction for an unknown
    question is ignored.

    Returns:
        `exact_match` and `f1` in percent.
    """
    exact, f1 = _score(gold, predictions, measure.exact_match, measure.f1)
    return {"exact_match": _percent(exact), "f1": _percent(f1)}


def evaluate_v2(
    gold: Mapping[str, Collection[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    measure: answer_measures.Measure = SQUAD,
) -> dict[str, float]:
    """Scores predictions like the official script of SQuAD 2.0.

    A question without a prediction scores 0 (the official script stops with an
    error); a prediction for an unknown question is ignored.

    Args:
        gold: gold answer texts by id; none if unanswerable.
        predictions: the answer by id, "" for "no answer".
        null_odds: by id, `--na-prob-file` of the script; adds the best scores
            and their thresholds. The script's `--na-prob-thresh` is infinite
            here: predictions are scored unchanged.
        measure: of two texts.

    Returns:
        `exact`, `f1` and `total`, the same with `HasAns_` and `NoAns_` if there
        are such questions, and with `null_odds` `best_exact`,
        `best_exact_thresh`, `best_f1`, `best_f1_thresh`; scores in percent, in
        this order.
    """
    exact, f1 = score_v2(gold, predictions, measure)
    result = {"exact": _percent(exact), "f1": _percent(f1), "total": len(gold)}
    for name, has_answer in ("HasAns", True), ("NoAns", False):
        ids = [i for i, answers in gold.items() if bool(answers) is has_answer]
        if ids:
            for metric, values in ("exact", exact), ("f1", f1):
                scores = {qas_id: values[qas_id] for qas_id in ids}
                result[f"{name}_{metric}"] = _percent(scores)
            result[f"{name}_total"] = len(ids)
    if null_odds is not None:
        for name, values in ("exact", exact), ("f1", f1):
            result[f"best_{name}"], result[f"best_{name}_thresh"] = (
                _official_best(values, gold, predictions, null_odds)
            )
    return result


def score_v2(
    gold: Mapping[str, Collection[str]],
    predictions: Mapping[str, str],
    measure: answer_measures.Measure = SQUAD,
) -> tuple[dict[str, float], dict[str, float]]:
    """Scores every question by the rules of SQuAD 2.0.

    Args:
        gold: gold answer texts by id; none if unanswerable.
        predictions: the answer by id, "" for "no answer".
        measure: of two texts.

    Returns:
        Exact match (0 or 1) and F1 (0 to 1) by id.
    """
    # Gold answers with only articles and punctuation do not count.
    counting = {
        qas_id: [text for text in answers if measure.normalize(text)] or [""]
        for qas_id, answers in gold.items()
    }

    def f1(gold_text: str, prediction: str) -> float:
        # Two texts without words score 1.
        texts = gold_text, prediction
        if not any(map(measure.normalize, texts)):
            return 1.0
        return measure.f1(*texts)

    return _score(counting, predictions, measure.exact_match, f1)


def best_null_threshold(
    gold: Mapping[str, Collection[str]],
    texts: Mapping[str, str],
    null_odds: Mapping[str, float],
    measure: answer_measures.Measure = SQUAD,
) -> float:
    """Finds the `null_score_diff_threshold` with the best F1.

    Unlike the official search, it starts from the best answer with text to
    every question, whatever threshold was used, and considers only reachable
    scores: questions with equal odds are either all answered or not.

    Args:
        gold: gold answer texts by id; none if unanswerable.
        texts: the best answer with text, by id; "" if there is none.
        null_odds: by id; a question is answered if not above the threshold.
        measure: of two texts.

    Returns:
        The lowest of the best thresholds: halfway between the odds of two
        questions, or 1 below the lowest or above the highest. It equals the
        number that `eval_results.txt` reports.
    """
    _, f1 = score_v2(gold, texts, measure)
    _, empty_f1 = score_v2(gold, dict.fromkeys(gold, ""), measure)
    # Gain in F1 of the answers over "no answer", by their odds. Questions
    # without text have no answer at any threshold.
    gains: dict[float, float] = {}
    for qas_id in sorted(filter(texts.get, gold), key=null_odds.__getitem__):
        odds = null_odds[qas_id]
        gains[odds] = gains.get(odds, 0.0) + f1[qas_id] - empty_f1[qas_id]
    if not gains:
        return 0.0
    # The first total is that of "no answer" to every question.
    totals = list(itertools.accumulate(gains.values(), initial=0.0))
    best = totals.index(max(totals))
    bounds = [min(gains) - 2, *gains, max(gains) + 2]
    middle = (bounds[best] + bounds[best + 1]) / 2
    # Results are printed with the shortest decimal of a float32.
    return float(str(np.float32(middle)))


def _score(
    gold: Mapping[str, Collection[str]],
    predictions: Mapping[str, str],
    exact_match: Callable[[str, str], float],
    f1: Callable[[str, str], float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1 by id, each against the best gold answer."""
    missing = [qas_id for qas_id in gold if qas_id not in predictions]
    question_files.warn(
        "Scores", missing, "questions have no prediction and score 0"
    )

    def best(metric: Callable[[str, str], float]) -> dict[str, float]:
        scores = dict.fromkeys(gold, 0.0)
        for qas_id in gold.keys() & predictions.keys():
            prediction = predictions[qas_id]
            scores[qas_id] = max(metric(t, prediction) for t in gold[qas_id])
        return scores

    return best(exact_match), best(f1)


def _official_best(
    scores: Mapping[str, float],
    gold: Mapping[str, Collection[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """Returns the best score in percent and its threshold, as the script.

    Questions are answered one by one from the lowest odds on, even among equal
    odds; "no answer" to all has the threshold 0.
    """
    total = best = float(sum(not answers for answers in gold.values()))
    threshold = 0.0
    for qas_id in sorted(gold, key=null_odds.__getitem__):
        if gold[qas_id]:
            total += scores[qas_id]
        elif predictions.get(qas_id):
            total -= 1
        if total > best:
            best = total
            threshold = null_odds[qas_id]
    return 100.0 * best / len(scores), threshold


def _percent(scores: Mapping[str, float]) -> float:
    return 100.0 * sum(scores.values()) / len(scores)
