"""Metrics of sentence classifiers, and reports by label.

Source: Wang et al. 2019, "GLUE", section 3 and table 1, for the metrics.
"""

from collections.abc import Callable, Sequence

import numpy as np
from absl import logging

from files import writing
from tasks import task
from tasks.classification import labels

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
_NUM_PAIRS = 10  # Number of listed confused pairs.
_MOST_NUMBERS = 30  # Maximum classes for numbers and names in the plot.
_LONGEST_NAME = 25  # Maximum characters of a name in the plot.
_LARGE_INCHES = 10.0
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
        outputs: `[E, K]` float, the probabilities or scores behind them.

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
        name: float(_compute(name, targets, decisions, outputs))
        for name in names
    }


def _columns(values: np.ndarray) -> np.ndarray:
    # Adds an empty column to `[E, K]`: scikit-learn reads a single one as class
    # ids. It is not among the scored labels.
    return np.pad(values, [(0, 0), (0, 1)]) if values.ndim == 2 else values


def _compute(name, targets, decisions, outputs):
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
        _columns(targets),
        _columns(decisions),
        labels=label_ids,  # Ignored by "binary", the F1 of class 1.
        average=_F1_AVERAGES[name],
        zero_division=0.0,
    )


def _correlation(name, targets, decisions):
    from scipy import stats

    # In float64, so that constants stay constant and large sums are exact.
    targets = np.asarray(targets, np.float64)
    decisions = np.asarray(decisions, np.float64)
    if np.ptp(targets) == 0 or np.ptp(decisions) == 0:
        logging.warning("%s is undefined for constants; reported as 0", name)
        return 0.0
    measure = stats.pearsonr if name == PEARSON else stats.spearmanr
    return measure(targets, decisions).statistic


def report(
    label_set: labels.LabelSet, targets: np.ndarray, decisions: np.ndarray
) -> str:
    """Formats scikit-learn's scores by label, and the commonest confusions.

    Args:
        label_set: `K` labels, one or several per example.
        targets: `[E]` class ids, or `[E, K]` 0 or 1.
        decisions: of the same shape.
    """
    # Imported here, since it takes seconds and reading data does not need it.
    from sklearn import metrics as sklearn_metrics

    names, label_ids = label_set.names, range(len(label_set.names))
    text = sklearn_metrics.classification_report(
        _columns(targets),
        _columns(decisions),
        labels=label_ids,
        target_names=names,
        digits=4,
        zero_division=0.0,
    )
    if label_set.problem_type == task.MULTI_LABEL:
        return text
    matrix = sklearn_metrics.confusion_matrix(
        targets, decisions, labels=label_ids
    )
    wrong = matrix * (1 - np.eye(len(names), dtype=int))
    pairs = np.argwhere(wrong)
    order = np.argsort(-wrong[tuple(pairs.T)], kind="stable")[:_NUM_PAIRS]
    if len(order):
        text += "\nmost confused (label -> prediction):\n"
    for row, column in pairs[order].tolist():
        count, label = matrix[row, column], names[row]
        share = count / matrix[row].sum()
        text += (
            f"{count:6}  {label} -> {names[column]} ({share:.1%} of {label})\n"
        )
    return text


def draw(
    names: Sequence[str],
    targets: np.ndarray,
    decisions: np.ndarray,
    path: str,
) -> None:
    """Plots a confusion matrix as PNG, as shares of each label.

    Args:
        names: names of the `K` classes.
        targets: `[E]` class ids.
        decisions: `[E]` class ids.
        path: the PNG file to write.
    """
    from matplotlib.figure import Figure
    from sklearn import metrics as sklearn_metrics

    has_numbers = len(names) <= _MOST_NUMBERS
    size = 3.5 + 0.5 * len(names) if has_numbers else _LARGE_INCHES
    figure = Figure((size + 1, size), layout="constrained")
    axis = figure.subplots()
    sklearn_metrics.ConfusionMatrixDisplay.from_predictions(
        targets,
        decisions,
        labels=range(len(names)),
        display_labels=list(map(_shown, names)),
        normalize="true",
        include_values=has_numbers,
        xticks_rotation="vertical",
        values_format=".2f",
        cmap="Blues",
        ax=axis,
    )
    if not has_numbers:
        axis.set(xticks=[], yticks=[])
    writing.write_png(path, figure)


def _shown(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}…"
    return name.replace("$", r"\$")  # It would begin a formula.
