"""Averages of losses and metrics over batches of records."""

import numpy as np

from bert.records import reading
from bert.training import input_pipeline, steps


def average(
    evaluator: steps.Evaluator,
    source: reading.RecordSource,
    *,
    batch_size: int,
    num_batches: int,
) -> dict[str, float]:
    """Averages losses and metrics over batches of records.

    Args:
        evaluator: the compiled steps.
        source, batch_size, num_batches: see `evaluation_batches`.

    Returns:
        `loss`, the mean of the losses of the batches, as released; and each
        metric, a weighted mean over all batches.
    """
    batches = input_pipeline.evaluation_batches(
        evaluator.strategy,
        source,
        batch_size=batch_size,
        num_batches=num_batches,
    )
    batch_losses = []
    sums: dict[str, np.ndarray] = {}
    for batch in batches:
        outcome = evaluator.run(batch)
        batch_losses.append(sum(float(x) for x in outcome.losses.values()))
        for name, pair in outcome.metrics.items():
            total = sums.setdefault(name, np.zeros(2))
            total += [float(part) for part in pair]
    return {
        "loss": float(np.mean(batch_losses)),
        **{
            name: float(total / weight if weight else 0.0)
            for name, (total, weight) in sums.items()
        },
    }
