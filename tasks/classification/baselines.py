"""What an answer that ignores the text would score."""

from collections.abc import Sequence

import numpy as np

from tasks.classification import labels, metrics

# 0 by definition where either side is constant.
_ZERO_FOR_CONSTANTS = (metrics.MATTHEWS, metrics.PEARSON, metrics.SPEARMAN)


def constant_answer(
    label_set: labels.LabelSet,
    metric: str,
    label_ids: Sequence[labels.LabelId] | np.ndarray,
) -> float:
    """Scores the best answer that is the same for every example.

    Args:
        label_set: the labels.
        metric: the score; higher is better.
        label_ids: `E` labels, as `LabelSet.encode` gives them.

    Returns:
        The score of the best class; with several labels, of the best among
        all, none, and those that more than half of the examples have.
    """
    if metric in _ZERO_FOR_CONSTANTS:
        return 0.0
    targets = np.asarray(label_ids)
    if label_set.problem_type == labels.REGRESSION:
        constants = [np.median(targets)]
    elif label_set.problem_type == labels.MULTI_LABEL:
        common = (np.mean(targets, axis=0) > 0.5).astype(targets.dtype)
        constants = [np.ones_like(common), np.zeros_like(common), common]
    else:
        constants = range(label_set.num_outputs)
    return max(
        metrics.evaluate(
            [metric],
            targets,
            np.broadcast_to(np.asarray(answer, targets.dtype), targets.shape),
        )[metric]
        for answer in constants
    )
