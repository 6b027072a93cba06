"""Metrics worked by hand, and their undefined cases."""

import math

import numpy as np
import pytest

from bert.tasks.classification import metrics

_TWO = np.zeros((1, 2))  # The number of labels; its values do not matter.
_TARGETS = [1, 1, 1, 0, 0]
_PREDICTIONS = [1, 1, 0, 1, 0]  # 2 true, 1 false positive; 1 of each negative


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", 3 / 5),
        ("f1", 2 * 2 / (2 * 2 + 1 + 1)),
        ("micro_f1", 3 / 5),
        ("macro_f1", (2 / 3 + 1 / 2) / 2),
        # (2 * 1 - 1 * 1) / sqrt(3 * 3 * 2 * 2)
        ("matthews_correlation", 1 / 6),
        ("mean_absolute_error", 2 / 5),
    ],
)
def test_classes_are_scored_as_by_hand(name, expected):
    value = metrics.evaluate([name], _TARGETS, _PREDICTIONS, _TWO)
    assert value == {name: pytest.approx(expected, abs=1e-12)}


def test_a_class_that_does_not_occur_has_macro_f1_0():
    values = metrics.evaluate(
        ["macro_f1"], _TARGETS, _PREDICTIONS, np.zeros((1, 3))
    )
    assert values == {"macro_f1": pytest.approx((2 / 3 + 1 / 2 + 0) / 3)}


def test_scores_correlate_as_by_hand():
    targets, predictions = [1.0, 2.0, 3.0], [1.0, 5.0, 3.0]
    values = metrics.evaluate(
        ["pearson", "spearman"], targets, predictions, _TWO
    )
    # Deviations (-1, 0, 1) and (-2, 2, 0): 2 / sqrt(2 * 8); ranks 1, 3, 2.
    assert values["pearson"] == pytest.approx(0.5)
    assert values["spearman"] == pytest.approx(0.5)


def test_several_labels_are_scored_over_labels_and_rows():
    targets = [[1, 0, 1], [0, 1, 0]]
    predictions = [[1, 0, 0], [0, 1, 0]]
    names = ("micro_f1", "macro_f1", "exact_match")
    values = metrics.evaluate(names, targets, predictions, np.zeros((2, 3)))
    assert values == {
        "micro_f1": pytest.approx(2 * 2 / (2 * 2 + 1)),
        "macro_f1": pytest.approx((1 + 1 + 0) / 3),
        "exact_match": 0.5,
    }


def test_a_single_label_is_scored_as_class_1():
    targets = [[1], [1], *[[0]] * 6]
    predictions = [[0], [1], [1], *[[0]] * 5]
    values = metrics.evaluate(
        ["micro_f1", "macro_f1"], targets, predictions, np.zeros((8, 1))
    )
    assert values == {"micro_f1": 2 / (2 + 1 + 1), "macro_f1": 0.5}


def test_metrics_do_not_depend_on_the_order_of_the_examples():
    names = ["accuracy", "f1", "matthews_correlation", "spearman"]
    back = slice(None, None, -1)
    values = metrics.evaluate(names, _TARGETS, _PREDICTIONS, _TWO)
    assert values == pytest.approx(
        metrics.evaluate(names, _TARGETS[back], _PREDICTIONS[back], _TWO)
    )


@pytest.mark.parametrize(
    ("name", "targets", "predictions"),
    [
        ("matthews_correlation", [0, 1, 1], [1, 1, 1]),
        ("matthews_correlation", [1, 1], [0, 1]),
        ("f1", [0, 0], [0, 0]),
        ("micro_f1", [[0, 0]], [[0, 0]]),
        ("pearson", [1.0, 2.0], [0.1, 0.1]),
        ("spearman", [1.0, 1.0], [0.1, 0.2]),
        ("pearson", [1.0], [2.0]),
    ],
)
def test_undefined_value_is_0(name, targets, predictions):
    values = metrics.evaluate([name], targets, predictions, _TWO)
    assert values == {name: 0.0}


def test_outputs_that_are_not_finite_are_an_error():
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="1 of 2 are not"):
            metrics.evaluate(["accuracy"], [1], [0], np.array([[1.0, bad]]))


def test_average_precision_is_the_mean_over_labels_that_occur():
    targets = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    outputs = np.array([[0.3, 0.1, 0.9], [0.2, 0.2, 0.1], [0.1, 0.3, 0.1]])
    # The first label is ranked first and last: (1/1 + 2/3) / 2. The second is
    # ranked above all others. The third never occurs.
    values = metrics.evaluate(
        ["average_precision", "micro_f1"], targets, outputs >= 0.5, outputs
    )
    assert values["average_precision"] == pytest.approx((5 / 6 + 1) / 2)
    # Sparse labels: no probability reaches 0.5.
    assert values["micro_f1"] == 0
    values = metrics.evaluate(
        ["average_precision"], 0 * targets, 0 * targets, outputs
    )
    assert values == {"average_precision": 0.0}


def test_f1_is_that_of_the_positive_class():
    targets, decisions = np.array(_TARGETS), np.array(_PREDICTIONS)
    f1 = metrics.evaluate(["f1"], targets, decisions, _TWO)
    # The same labels and answers in the other order of outputs.
    swapped = metrics.evaluate(
        ["f1"], 1 - targets, 1 - decisions, _TWO, positive=0
    )
    assert swapped == f1
    assert metrics.evaluate(["f1"], targets, decisions, _TWO, 0) != f1
    nothing = metrics.evaluate(["f1"], [1, 1], [1, 1], _TWO, positive=0)
    assert nothing == {"f1": 0.0}
