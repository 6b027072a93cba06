"""Stratified splits of one file."""

import collections

import numpy as np
import pytest

from tasks.classification import datasets

_FOUND = ["a"] * 50 + ["b"] * 30 + ["c"] * 20


def _counts(rows, found=_FOUND):
    return collections.Counter(found[row] for row in rows)


@pytest.mark.parametrize("seed", [1, 2])
def test_each_label_is_held_out_in_the_same_share(seed):
    rows = datasets.hold_out(_FOUND, 0.2, seed)
    assert _counts(rows) == {"a": 10, "b": 6, "c": 4}
    assert list(rows) == sorted(set(rows))
    assert rows == datasets.hold_out(_FOUND, 0.2, seed)
    assert rows != datasets.hold_out(_FOUND, 0.2, seed + 1)


def test_rows_are_drawn_from_the_whole_file():
    drawn = {
        row
        for seed in range(60)
        for row in datasets.hold_out(_FOUND, 0.2, seed)
    }
    # Each is missed with a chance of 0.8 ** 60, 2e-6.
    assert drawn == set(range(100))


def test_folds_share_out_rows_and_labels_evenly():
    found = datasets.folds(_FOUND, 3, 5)
    assert sorted(row for rows in found for row in rows) == list(range(100))
    for rows in found:
        for label, number in (("a", 50), ("b", 30), ("c", 20)):
            assert abs(_counts(rows)[label] - number / 3) < 1
    assert found == datasets.folds(_FOUND, 3, 5) != datasets.folds(_FOUND, 3, 6)


def test_scores_and_several_labels_are_stratified_too():
    scores = list(np.random.default_rng(1).normal(size=200))
    held_out = [scores[row] for row in datasets.hold_out(scores, 0.1, 1)]
    assert np.mean(held_out) == pytest.approx(np.mean(scores), abs=0.05)
    several = [("x",), ("y", "x"), ("x", "y"), ()] * 10
    rows = datasets.hold_out(several, 0.25, 1)
    pairs = [set(several[row]) == {"x", "y"} for row in rows]
    assert (len(rows), sum(pairs)) == (10, 5)


def test_parts_make_up_the_file():
    names = ["held", "kept"]
    parts = {
        name: datasets.Part(
            held_out=(1, 3), is_held_out=name == "held", seed=7, fold=2
        )
        for name in names
    }
    assert parts["held"].take("abcde") == ["b", "d"]
    assert parts["kept"].take("abcde") == ["a", "c", "e"]
    assert parts["kept"].suffix == "-fold-2"
    assert parts["held"].origin() == {
        "part": "held out",
        "held_out_rows": [1, 3],
        "split_seed": 7,
    }


def test_refuses_what_leaves_nothing(caplog):
    with pytest.raises(ValueError, match=r"0\.1 of 4 rows are 0"):
        datasets.hold_out(["a"] * 4, 0.1, 1)
    for count in (1, 5):
        with pytest.raises(ValueError, match=f"number of rows, 4; got {count}"):
            datasets.folds(["a"] * 4, count, 1)
    datasets.folds(["a", "a", "b"], 2, 1)
    assert "missing in some folds: 'b'" in caplog.text
