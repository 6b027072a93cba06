"""Metrics of sentence classifiers, as GLUE defines them.

Source: Wang et al. 2019, "GLUE", section 3 and table 1.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from absl import logging

ACCURACY = "accuracy"
F1 = "f1"
MACRO_F1 = "macro_f1"
MICRO_F1 = "micro_f1"
EXACT_MATCH = "exact_match"
MATTHEWS = "matthews_correlation"
PEARSON = "pearson"
SPEARMAN = "spearman"
MEAN_ABSOLUTE_ERROR = "mean_absolute_error"


def evaluate(
    names: Sequence[str],
    targets: np.ndarray,
    predictions: np.ndarray,
    num_labels: int | None = None,
) -> dict[str, float]:
    """Computes metrics by name.

    Args:
        names: metrics, each one of the constants above.
        targets: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        predictions: of the same shape.
        num_labels: `K` of class ids, for macro F1: a class without targets and
            predictions has F1 0. By default only the classes that occur count.

    Returns:
        Name -> value. An undefined value (a correlation with a constant, F1
        without any positive) is 0, with a warning in the log.

    Raises:
        ValueError: no examples, shapes that differ, or values that are not
            finite.
    """
    targets, predictions = np.asarray(targets), np.asarray(predictions)
    if targets.shape != predictions.shape:
        raise ValueError(
            "There must be one prediction for each target; got shapes "
            f"{predictions.shape} and {targets.shape}."
        )
    if not len(targets):
        raise ValueError("Metrics need at least one example; got none.")
    for kind, values in (("targets", targets), ("predictions", predictions)):
        bad = int(np.sum(~np.isfinite(values)))
        if bad:
            raise ValueError(
                f"All {kind} must be finite; {bad} of {values.size} are not."
            )
    label_ids = None if num_labels is None else range(num_labels)
    return {
        name: _f1(name, targets, predictions, label_ids)
        if name in _F1_AVERAGES
        else _METRICS[name](targets, predictions)
        for name in names
    }


def without_single_column(
    targets: np.ndarray,
    predictions: np.ndarray,
    label_ids: Sequence[int] | None,
) -> tuple[np.ndarray, np.ndarray, Sequence[int] | None]:
    """Converts the only label of a multi-label task to class 1.

    scikit-learn reads an `[E, 1]` array as class ids and averages over the
    classes 0 and 1.

    Args:
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        predictions: of the same shape.
        label_ids: ids of the scored labels; None for all that occur.

    Returns:
        The arguments; for `[E, 1]`, both arrays as `[E]` and the id 1.
    """
    if targets.ndim == 2 and targets.shape[1] == 1:
        return targets[:, 0], predictions[:, 0], [1]
    return targets, predictions, label_ids


def _undefined(name: str, reason: str) -> float:
    logging.warning("%s is undefined (%s); reported as 0", name, reason)
    return 0.0


def _accuracy(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.mean(targets == predictions))


def _exact_match(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the share of rows `[K]` with all labels correct."""
    return float(np.mean(np.all(targets == predictions, axis=-1)))


def _f1(
    name: str,
    targets: np.ndarray,
    predictions: np.ndarray,
    label_ids: Sequence[int] | None,
) -> float:
    """Computes F1; `binary` is that of class 1, as for MRPC and QQP."""
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as scores

    average = _F1_AVERAGES[name]
    if average != "macro" and not (
        np.any(targets == 1) or np.any(predictions == 1)
    ):
        return _undefined(name, "no positive target nor prediction")
    targets, predictions, label_ids = without_single_column(
        targets, predictions, label_ids
    )
    value = scores.f1_score(
        targets,
        predictions,
        # `binary` ignores labels.
        labels=label_ids,
        average=average,
        zero_division=0.0,
    )
    return float(value)


def _matthews(targets: np.ndarray, predictions: np.ndarray) -> float:
    from sklearn import metrics as scores

    if np.all(targets == targets[0]) or np.all(predictions == predictions[0]):
        return _undefined(MATTHEWS, "targets or predictions are all one class")
    return float(scores.matthews_corrcoef(targets, predictions))


def _correlation(
    targets: np.ndarray, predictions: np.ndarray, *, name: str
) -> float:
    from scipy import stats

    # In float64, so that constants stay constant and large sums are exact.
    targets = np.asarray(targets, np.float64)
    predictions = np.asarray(predictions, np.float64)
    if np.ptp(targets) == 0 or np.ptp(predictions) == 0:
        return _undefined(name, "targets or predictions are all the same")
    measure = stats.pearsonr if name == PEARSON else stats.spearmanr
    return float(measure(targets, predictions).statistic)


def _mean_absolute_error(targets: np.ndarray, predictions: np.ndarray) -> float:
    return float(np.mean(np.abs(targets - predictions)))


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    ACCURACY: _accuracy,
    EXACT_MATCH: _exact_match,
    MATTHEWS: _matthews,
    PEARSON: functools.partial(_correlation, name=PEARSON),
    SPEARMAN: functools.partial(_correlation, name=SPEARMAN),
    MEAN_ABSOLUTE_ERROR: _mean_absolute_error,
}

# Average over labels, as in scikit-learn.
_F1_AVERAGES = {F1: "binary", MACRO_F1: "macro", MICRO_F1: "micro"}
