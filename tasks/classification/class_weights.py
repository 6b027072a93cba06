"""Class weights: numbers of the user's, or balanced by their counts."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from files import messages
from tasks.classification import labels

BALANCED = ("balanced",)  # As given on a command line.


def numbers(
    given: Sequence[str], label_set: labels.LabelSet
) -> tuple[float, ...]:
    """Reads the weights that a user gave, one for each label.

    Raises:
        ValueError: there is not one positive number for each label.
    """
    try:
        weights = tuple(map(float, given))
    except ValueError:
        weights = ()
    if len(weights) != len(label_set.names) or not all(
        weight > 0 and math.isfinite(weight) for weight in weights
    ):
        raise ValueError(
            "--class_weights must be balanced, or a positive number for each "
            f"label, in the order {messages.listed(label_set.names)}; got "
            f"{messages.listed(given)}."
        )
    return weights


def balanced(
    found: Iterable[labels.Label], label_set: labels.LabelSet
) -> tuple[float, ...]:
    """Weighs labels so that each counts the same in the loss.

    Source: King and Zeng 2001, "Logistic Regression in Rare Events Data", as
    scikit-learn's `class_weight="balanced"`: `n / (K * count)`. Of several
    labels, each weighs as much where it holds as where it does not:
    `(n - count) / count`.

    Args:
        found: the labels of the training examples.
        label_set: which labels there are.

    Raises:
        ValueError: a label never holds, or always.
    """
    ids = np.array([label_set.encode(label) for label in found])
    if label_set.problem_type == labels.MULTI_LABEL:
        counts = ids.sum(axis=0)
        weighed = len(ids) - counts
    else:
        counts = np.bincount(ids, minlength=len(label_set.names))
        weighed = np.float64(len(ids) / len(counts))
    for name, count in zip(label_set.names, counts, strict=True):
        if not 0 < count < len(ids):
            raise ValueError(
                "--class_weights=balanced needs examples with and without each "
                f"label; {count:g} of {len(ids)} to train on have "
                f"{messages.short(name)}. Give numbers instead."
            )
    return tuple((weighed / counts).tolist())
