"""Class weights."""

import numpy as np
import pytest
from sklearn.utils import class_weight

from tasks.classification import labels

_ONE = labels.LabelSet(names=("no", "so-so", "yes"))
_SEVERAL = labels.LabelSet(names=("p", "q"), problem_type="multi_label")


def test_numbers_are_in_the_order_of_the_labels():
    assert labels.parse_weights(["1", "2.5", "1e1"], _ONE) == (1.0, 2.5, 10.0)


@pytest.mark.parametrize(
    "given", [["1", "2"], ["1", "x", "2"], ["1", "0", "2"], ["1", "inf", "2"]]
)
def test_there_is_a_positive_number_for_each_label(given):
    with pytest.raises(ValueError, match="order 'no', 'so-so', 'yes'; got '1'"):
        labels.parse_weights(given, _ONE)


def test_balanced_weights_are_those_of_scikit_learn():
    found = ["no"] * 5 + ["yes"] * 2 + ["so-so"]
    expected = class_weight.compute_class_weight(
        "balanced", classes=np.array(_ONE.names), y=np.array(found)
    )
    got = labels.balanced_weights(found, _ONE)
    np.testing.assert_allclose(got, expected)
    np.testing.assert_allclose(got, [8 / 15, 8 / 3, 8 / 6])


def test_balanced_labels_that_hold_weigh_as_much_as_those_that_do_not():
    found = [("p",), ("p", "q"), (), ("p",)]
    assert labels.balanced_weights(found, _SEVERAL) == (1 / 3, 3.0)


@pytest.mark.parametrize(
    ("found", "label_set", "message"),
    [
        (["no", "yes"], _ONE, "0 of 2 to train on have 'so-so'"),
        ([("p",), ("p", "q")], _SEVERAL, "2 of 2 to train on have 'p'"),
    ],
)
def test_a_label_without_examples_has_no_balance(found, label_set, message):
    with pytest.raises(ValueError, match=message):
        labels.balanced_weights(found, label_set)
