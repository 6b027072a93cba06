"""The multi-bootstrap: the spread of a difference over seeds and examples.

Source: Sellam et al. 2021, "The MultiBERTs", section 3.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """A fine-tuned model.

    Attributes:
        seed: of its pre-training.
        scores: `[N]`, the score of each example, such as 1 for a right answer;
            or one score of the data as a whole.
    """

    seed: int
    scores: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interval:
    """A difference of means, and the quantiles 2.5% and 97.5% of its draws."""

    difference: float
    low: float
    high: float


def draws(
    base: Sequence[Run],
    intervention: Sequence[Run],
    rng: np.random.RandomState,
    *,
    paired_seeds: bool = False,
    sample_seeds: bool = True,
    sample_examples: bool = True,
) -> Iterator[tuple[float, float]]:
    """Yields the means of base and intervention for each draw, without end.

    A draw takes pre-trainings with replacement, of base first, and then
    examples, which are those of all runs. A mean is over pre-trainings, of the
    means over their runs.

    Args:
        base, intervention: the runs that are compared.
        rng: of NumPy's older kind, whose stream is that of the authors' code.
        paired_seeds: whether a seed of both is the same pre-training; both
            then take the same seeds.
        sample_seeds: whether pre-trainings are drawn, or each counts once.
        sample_examples: whether examples are drawn, or each counts once.

    Raises:
        ValueError: the seeds of a pair differ, or the numbers of examples.
    """
    sizes = {len(run.scores) for run in (*base, *intervention)}
    if len(sizes) != 1:
        raise ValueError(f"All runs must have the same examples; got {sizes}.")
    (size,) = sizes
    seeds, others = (
        sorted({r.seed for r in runs}) for runs in (base, intervention)
    )
    if paired_seeds and seeds != others:
        raise ValueError(
            f"Paired runs must have the same seeds; got {seeds} and {others}."
        )
    while True:
        chosen, other_chosen = np.array(seeds), np.array(others)
        if sample_seeds:
            chosen = rng.choice(seeds, size=len(seeds))
            other_chosen = (
                chosen if paired_seeds else rng.choice(others, size=len(others))
            )
        examples = np.arange(size)
        if sample_examples:
            examples = rng.choice(size, size=size)
        yield (
            _mean(base, chosen, examples),
            _mean(intervention, other_chosen, examples),
        )


def _mean(
    runs: Sequence[Run], seeds: np.ndarray, examples: np.ndarray
) -> float:
    by_seed: dict[int, list[float]] = {}
    for run in runs:
        score = float(np.mean(run.scores[examples]))
        by_seed.setdefault(run.seed, []).append(score)
    means = {seed: np.mean(scores) for seed, scores in by_seed.items()}
    return float(np.mean([means[seed] for seed in seeds.tolist()]))


def interval(
    base: Sequence[Run],
    intervention: Sequence[Run],
    *,
    num_draws: int = 1000,
    random_seed: int = 12345,
    paired_seeds: bool = False,
    sample_examples: bool = True,
) -> Interval:
    """Returns the difference, intervention less base, with its 95% interval.

    Args:
        base, intervention: the runs that are compared.
        num_draws: the number of draws.
        random_seed: of the draws.
        paired_seeds, sample_examples: as for `draws`.
    """
    sampled = draws(
        base,
        intervention,
        np.random.RandomState(random_seed),
        paired_seeds=paired_seeds,
        sample_examples=sample_examples,
    )
    differences = [
        theirs - ours for ours, theirs in itertools.islice(sampled, num_draws)
    ]
    low, high = np.quantile(differences, (0.025, 0.975))
    return Interval(
        difference=_mean_of_all(intervention) - _mean_of_all(base),
        low=float(low),
        high=float(high),
    )


def _mean_of_all(runs: Sequence[Run]) -> float:
    seeds = np.array(sorted({run.seed for run in runs}))
    return _mean(runs, seeds, np.arange(len(runs[0].scores)))
