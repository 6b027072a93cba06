import numpy as np
import pytest

from tasks.classification import baselines, labels, metrics

_TWO = labels.LabelSet(names=("no", "yes"))


def test_accuracy_is_the_share_of_the_commonest_class():
    ids = [0, 1, 1, 1]
    assert baselines.constant_answer(_TWO, metrics.ACCURACY, ids) == 0.75


def test_f1_is_that_of_always_yes():
    # Precision 1/4, recall 1.
    value = baselines.constant_answer(_TWO, metrics.F1, [0, 0, 1, 0])
    assert value == pytest.approx(0.4)


@pytest.mark.parametrize(
    "metric", [metrics.MATTHEWS, metrics.PEARSON, metrics.SPEARMAN]
)
def test_no_constant_correlates(metric):
    assert baselines.constant_answer(_TWO, metric, [0, 1, 1]) == 0.0


def test_several_labels_are_those_that_most_rows_have():
    several = labels.LabelSet(
        problem_type=labels.MULTI_LABEL, names=("a", "b", "c")
    )
    ids = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 0]])
    value = baselines.constant_answer(several, metrics.EXACT_MATCH, ids)
    assert value == pytest.approx(2 / 3)
