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
AVERAGE_PRECISION = "average_precision"
EXACT_MATCH = "exact_match"
MATTHEWS = "matthews_correlation"
PEARSON = "pearson"
SPEARMAN = "spearman"
MEAN_ABSOLUTE_ERROR = "mean_absolute_error"

_F1_AVERAGES = {F1: "binary", MACRO_F1: "macro", MICRO_F1: "micro"}


def evaluate(
    names: Sequence[str],
    targets: np.ndarray,
    decisions: np.ndarray,
    outputs: np.ndarray,
) -> dict[str, float]:
    """Computes metrics by name.

    Args:
        names: metrics, each one of the constants above.
        targets: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        decisions: of the same shape.
        outputs: `[E, K]` float, the probabilities or scores behind them. A
            class without targets and decisions has F1 0 in `MACRO_F1`.

    Returns:
        Name -> value. An undefined value (a correlation with a constant, F1 or
        average precision without any positive) is 0, with a warning in the log.

    Raises:
        ValueError: no examples, shapes that differ, or outputs that are not
            finite.
    """
    targets, decisions = np.asarray(targets), np.asarray(decisions)
    if targets.shape != decisions.shape or not len(targets):
        raise ValueError(
            "There must be one prediction for each of one or more targets; got "
            f"shapes {decisions.shape} and {targets.shape}."
        )
    if bad := int(np.sum(~np.isfinite(outputs))):
        raise ValueError(
            f"All outputs must be finite; {bad} of {np.size(outputs)} are not."
        )
    values = {}
    for name in names:
        if name in _F1_AVERAGES:
            values[name] = _f1(name, targets, decisions, outputs.shape[-1])
        elif name == AVERAGE_PRECISION:
            values[name] = _average_precision(targets, outputs)
        else:
            values[name] = _METRICS[name](targets, decisions)
    return values


def without_single_column(
    targets: np.ndarray, decisions: np.ndarray, label_ids: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, Sequence[int]]:
    """Converts the only label of a multi-label task to class 1.

    scikit-learn reads an `[E, 1]` array as class ids and averages over the
    classes 0 and 1.

    Args:
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        decisions: of the same shape.
        label_ids: ids of the scored labels.

    Returns:
        The arguments; for `[E, 1]`, both arrays as `[E]` and the id 1.
    """
    if targets.ndim == 2 and targets.shape[1] == 1:
        return targets[:, 0], decisions[:, 0], [1]
    return targets, decisions, label_ids


def _undefined(name: str, reason: str) -> float:
    logging.warning("%s is undefined (%s); reported as 0", name, reason)
    return 0.0


def _accuracy(targets: np.ndarray, decisions: np.ndarray) -> float:
    return float(np.mean(targets == decisions))


def _exact_match(targets: np.ndarray, decisions: np.ndarray) -> float:
    """Returns the share of rows `[K]` with all labels correct."""
    return float(np.mean(np.all(targets == decisions, axis=-1)))


def _f1(
    name: str, targets: np.ndarray, decisions: np.ndarray, num_labels: int
) -> float:
    """Computes F1; `binary` is that of class 1, as for MRPC and QQP."""
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as scores

    if name != MACRO_F1 and not (np.any(targets == 1) or np.any(decisions)):
        return _undefined(name, "no positive target nor prediction")
    targets, decisions, label_ids = without_single_column(
        targets, decisions, range(num_labels)
    )
    value = scores.f1_score(
        targets,
        decisions,
        # `binary` ignores labels.
        labels=label_ids,
        average=_F1_AVERAGES[name],
        zero_division=0.0,
    )
    return float(value)


def _average_precision(targets: np.ndarray, outputs: np.ndarray) -> float:
    """Returns the mean over the labels `K` that occur in the targets."""
    from sklearn import metrics as scores

    values = [
        scores.average_precision_score(column, outputs[:, label])
        for label, column in enumerate(targets.T)
        if column.any()
    ]
    if not values:
        return _undefined(AVERAGE_PRECISION, "no positive target")
    return float(np.mean(values))


def _matthews(targets: np.ndarray, decisions: np.ndarray) -> float:
    from sklearn import metrics as scores

    if np.all(targets == targets[0]) or np.all(decisions == decisions[0]):
        return _undefined(MATTHEWS, "targets or predictions are all one class")
    return float(scores.matthews_corrcoef(targets, decisions))


def _correlation(
    targets: np.ndarray, decisions: np.ndarray, *, name: str
) -> float:
    from scipy import stats

    # In float64, so that constants stay constant and large sums are exact.
    targets = np.asarray(targets, np.float64)
    decisions = np.asarray(decisions, np.float64)
    if np.ptp(targets) == 0 or np.ptp(decisions) == 0:
        return _undefined(name, "targets or predictions are all the same")
    measure = stats.pearsonr if name == PEARSON else stats.spearmanr
    return float(measure(targets, decisions).statistic)


def _mean_absolute_error(targets: np.ndarray, decisions: np.ndarray) -> float:
    return float(np.mean(np.abs(targets - decisions)))


_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    ACCURACY: _accuracy,
    EXACT_MATCH: _exact_match,
    MATTHEWS: _matthews,
    PEARSON: functools.partial(_correlation, name=PEARSON),
    SPEARMAN: functools.partial(_correlation, name=SPEARMAN),
    MEAN_ABSOLUTE_ERROR: _mean_absolute_error,
}
