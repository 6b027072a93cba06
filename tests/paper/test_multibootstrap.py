"""The multi-bootstrap against the outputs of its authors' code."""

import itertools

import numpy as np
import pytest

from paper import multibootstrap
from tests.support import locations, toy_files

_CASES = toy_files.read_json(
    locations.GOLDEN / "multibootstrap/multibootstrap.json"
)


def _runs(case, is_intervention):
    labels = np.array(case["labels"])
    return [
        multibootstrap.Run(
            seed=info["seed"], scores=(np.array(predictions) == labels)
        )
        for info, predictions in zip(
            case["run_info"], case["predictions"], strict=True
        )
        if info["intervention"] == is_intervention
    ]


def _run(seed, *scores):
    return multibootstrap.Run(seed=seed, scores=np.array(scores))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_draws_are_those_of_the_authors_to_the_last_digit(case):
    flags = ("paired_seeds", "sample_seeds", "sample_examples")
    drawn = multibootstrap.draws(
        _runs(case, False),
        _runs(case, True),
        np.random.RandomState(case["random_state"]),
        **{flag: case[flag] for flag in flags},
    )
    pairs = itertools.islice(drawn, case["nboot"])
    assert [list(pair) for pair in pairs] == case["samples"]


def test_an_interval_covers_the_spread_of_the_pre_trainings():
    # Two runs of the first pre-training count as much as one of the second.
    base = [_run(0, 60.0), _run(0, 70.0), _run(1, 75.0)]
    better = [_run(5, 80.0), _run(6, 90.0)]
    found = multibootstrap.interval(base, better, sample_examples=False)
    assert found.difference == 85.0 - (65.0 + 75.0) / 2
    # From the worst of one less the best of the other to the opposite.
    assert (found.low, found.high) == (80.0 - 75.0, 90.0 - 65.0)


def test_pairs_of_the_same_pre_training_differ_less():
    base = [_run(seed, float(seed)) for seed in range(5)]
    better = [_run(seed, seed + 2.0) for seed in range(5)]
    paired, unpaired = (
        multibootstrap.interval(
            base, better, paired_seeds=is_paired, sample_examples=False
        )
        for is_paired in (True, False)
    )
    assert (paired.low, paired.high) == pytest.approx((2.0, 2.0))
    assert unpaired.difference == 2.0
    assert unpaired.low < 1.0 and unpaired.high > 3.0


def test_runs_of_other_examples_or_seeds_are_refused():
    one, two = [_run(0, 1.0)], [_run(1, 1.0, 0.0)]
    with pytest.raises(ValueError, match="must have the same examples"):
        multibootstrap.interval(one, two)
    rng = np.random.RandomState(1)
    with pytest.raises(ValueError, match="must have the same seeds"):
        next(multibootstrap.draws(one, [_run(1, 1.0)], rng, paired_seeds=True))
