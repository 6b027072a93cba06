"""Metrics of sentence classifiers.

Source: Wang et al. 2019, "GLUE", section 3 and table 1, for the metrics.
"""

from collections.abc import Callable, Sequence

import numpy as np
from absl import logging

from bert.files import messages
from bert.tasks.classification import class_labels

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

_MEANS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    ACCURACY: np.equal,
    EXACT_MATCH: lambda targets, decisions: np.all(targets == decisions, -1),
    MEAN_ABSOLUTE_ERROR: lambda targets, decisions: abs(targets - decisions),
}
_F1_AVERAGES = {F1: "binary", MACRO_F1: "macro", MICRO_F1: "micro"}


def evaluate(
    names: Sequence[str],
    targets: np.ndarray,
    decisions: np.ndarray,
    outputs: np.ndarray,
    positive: int = 1,
) -> dict[str, float]:
    """Computes metrics by name.

    Args:
        names: metrics, each one of the constants above.
        targets: `[E]` class ids or scores, or `[E, K]` 0 or 1.
        decisions: of the same shape.
        outputs: `[E, K]` float, the probabilities or scores behind them.
        positive: the class id of which `F1` is.

    Returns:
        Name -> value; 0 if it is undefined, such as F1 without any positive. A
        class without targets and decisions has F1 0 in `MACRO_F1`; labels
        without targets are left out of `AVERAGE_PRECISION`.

    Raises:
        ValueError: an output is not finite.
    """
    targets, decisions = np.asarray(targets), np.asarray(decisions)
    if bad := int(np.sum(~np.isfinite(outputs))):
        raise ValueError(
            f"All outputs must be finite; {bad} of {np.size(outputs)} are not."
        )
    return {
        name: float(_compute(name, targets, decisions, outputs, positive))
        for name in names
    }


def describe_majority(
    label_set: class_labels.LabelSet, targets: np.ndarray
) -> str:
    """Describes the number of examples, and the accuracy of a constant answer.

    Args:
        label_set: one label, or several.
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
    """
    values, counts = np.unique(targets, axis=0, return_counts=True)
    commonest = values[np.argmax(counts)]
    names = label_set.names
    if commonest.ndim:
        name = ", ".join(names[i] for i in np.flatnonzero(commonest)) or "none"
    else:
        name = names[commonest]
    count, total = counts.max(), len(targets)
    return (
        f"n = {total}; most frequent label: {messages.truncate(name, 60)}, "
        f"{count} of {total} ({count / total:.1%})"
    )


def as_columns(values: np.ndarray) -> np.ndarray:
    """Adds an empty column to `[E, K]`, which is not among the scored labels.

    scikit-learn reads a single column as class ids. `[E]` stays as it is.
    """
    return np.pad(values, [(0, 0), (0, 1)]) if values.ndim == 2 else values


def _compute(
    name: str,
    targets: np.ndarray,
    decisions: np.ndarray,
    outputs: np.ndarray,
    positive: int,
) -> float:
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as scores

    if name == MATTHEWS:
        return scores.matthews_corrcoef(targets, decisions)
    if name in _MEANS:
        return np.mean(_MEANS[name](targets, decisions))
    if name in (PEARSON, SPEARMAN):
        return _correlation(name, targets, decisions)
    if name == AVERAGE_PRECISION:
        values = [
            scores.average_precision_score(column, outputs[:, label])
            for label, column in enumerate(targets.T)
            if column.any()
        ]
        return np.mean(values) if values else 0.0
    label_ids = range(outputs.shape[-1])
    return scores.f1_score(
        as_columns(targets),
        as_columns(decisions),
        labels=label_ids,  # Ignored by "binary".
        pos_label=positive,  # Ignored by the others.
        average=_F1_AVERAGES[name],
        zero_division=0.0,
    )


def _correlation(
    name: str, targets: np.ndarray, decisions: np.ndarray
) -> float:
    from scipy import stats

    # Constants stay constant in float64, and large sums are exact.
    targets = np.asarray(targets, np.float64)
    decisions = np.asarray(decisions, np.float64)
    if np.ptp(targets) == 0 or np.ptp(decisions) == 0:
        logging.warning("%s is undefined for constants; reported as 0", name)
        return 0.0
    measure = stats.pearsonr if name == PEARSON else stats.spearmanr
    return measure(targets, decisions).statistic
