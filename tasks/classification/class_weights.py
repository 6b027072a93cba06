"""Class weights: given by the user, or balanced by label counts."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from files import messages
from tasks.classification import labels

BALANCED = ("balanced",)  # Value of the flag.


def numbers(
    given: Sequence[str], label_set: labels.LabelSet
) -> tuple[float, ...]:
    """Parses the given weights, one for each label.

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
    """Computes weights that give all labels the same total weight in the loss.

    Source: King and Zeng 2001, "Logistic Regression in Rare Events Data", as in
    scikit-learn's `class_weight="balanced"`: `n / (K * count)`. With several
    labels, the positive weight is `(n - count) / count`, which gives positive
    and negative examples the same total weight.

    Args:
        found: labels of the training examples.
        label_set: the labels.

    Raises:
        ValueError: a label has no positive or no negative examples.
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
