"""What training minimises.

Every loss is computed in float32 and averages over the items of one batch. A
run over several replicas, or several parts of a batch, passes each loss the
`denominator` of the whole batch; the parts' losses then add up to the loss of
the batch.
"""

from typing import Any

from keras import ops

from modeling import cross_entropy as cross_entropy_lib

# Source: run_pretraining.py of the release. It keeps a batch without
# predictions at 0, and makes the loss slightly less than the mean.
MASKED_LM_OFFSET = 1e-5


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Computes the cross entropy of each item.

    Args:
        logits: `[..., K]` float, unnormalised.
        labels: `[...]` int, in [0, K).

    Returns:
        `[...]` float32, nats.
    """
    return cross_entropy_lib.cross_entropy(ops.cast(logits, "float32"), labels)


def masked_lm_loss(
    logits: Any, label_ids: Any, label_weights: Any, denominator: Any = None
) -> Any:
    """Averages cross entropy over the real predictions of a batch.

    Source: Devlin et al. 2019, §3.1 Task #1 and App. A.2.

    Args:
        logits: `[B, P, V]` float, unnormalised.
        label_ids: `[B, P]` int, the original token at each position.
        label_weights: `[B, P]` float, 1 for a real prediction, 0 for padding.
        denominator: `[]` float, the sum of the weights of the whole batch,
            if these rows are a part of it; their own sum if None.

    Returns:
        `[]` float32, nats per prediction.
    """
    weights = ops.cast(label_weights, "float32")
    if denominator is None:
        denominator = ops.sum(weights)
    total = ops.sum(cross_entropy(logits, label_ids) * weights)
    return total / (ops.cast(denominator, "float32") + MASKED_LM_OFFSET)


def next_sentence_loss(
    logits: Any, labels: Any, weights: Any = None, denominator: Any = None
) -> Any:
    """Averages the cross entropy of "is the second text the next one?".

    Args:
        logits: `[B, 2]` float, unnormalised.
        labels: `[B]` or `[B, 1]` int, 0 the next text, 1 a random one.
        weights: `[B]` float, 0 for a row that only fills up the batch.
        denominator: `[]` float, the sum of the weights of the whole batch, or
            its rows; of these rows if None.

    Returns:
        `[]` float32, nats per pair.
    """
    labels = ops.reshape(labels, [-1])  # [B]
    return _mean(cross_entropy(logits, labels), weights, denominator)


def classification_loss(
    logits: Any, labels: Any, weights: Any = None, denominator: Any = None
) -> Any:
    """Averages the cross entropy of one label per sequence.

    Args:
        logits: `[B, K]` float, unnormalised.
        labels: `[B]` int, in [0, K).
        weights: as for `next_sentence_loss`.
        denominator: as for `next_sentence_loss`.

    Returns:
        `[]` float32, nats per sequence.
    """
    return _mean(cross_entropy(logits, labels), weights, denominator)


def regression_loss(
    scores: Any, targets: Any, weights: Any = None, denominator: Any = None
) -> Any:
    """Averages the squared error of one score per sequence.

    Args:
        scores: `[B, 1]` or `[B]` float.
        targets: `[B]` float.
        weights: as for `next_sentence_loss`.
        denominator: as for `next_sentence_loss`.

    Returns:
        `[]` float32.
    """
    scores = ops.cast(ops.reshape(scores, [-1]), "float32")  # [B]
    targets = ops.cast(ops.reshape(targets, [-1]), "float32")  # [B]
    return _mean(ops.square(scores - targets), weights, denominator)


def span_loss(
    logits: tuple[Any, Any],
    positions: tuple[Any, Any],
    weights: Any = None,
    denominator: Any = None,
) -> Any:
    """Averages the cross entropy of where an answer starts and ends.

    Source: Devlin et al. 2019, §4.2; the mean of the two as released.

    Args:
        logits: start and end, each `[B, T]` float, unnormalised.
        positions: start and end, each `[B]` int, in [0, T).
        weights: as for `next_sentence_loss`.
        denominator: as for `next_sentence_loss`.

    Returns:
        `[]` float32, nats per position.
    """
    (start_logits, end_logits), (start, end) = logits, positions
    per_row = 0.5 * (
        cross_entropy(start_logits, start) + cross_entropy(end_logits, end)
    )  # [B]
    return _mean(per_row, weights, denominator)


def _mean(values: Any, weights: Any, denominator: Any) -> Any:
    """Averages `[B]` values; 0 where nothing weighs anything."""
    weights = (
        ops.ones_like(values)
        if weights is None
        else ops.cast(ops.reshape(weights, [-1]), "float32")
    )  # [B]
    if denominator is None:
        denominator = ops.sum(weights)
    return ops.divide_no_nan(
        ops.sum(values * weights), ops.cast(denominator, "float32")
    )
