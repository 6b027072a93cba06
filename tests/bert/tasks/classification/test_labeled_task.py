"""Losses of examples and of batches."""

import numpy as np
import pytest

from bert.tasks import task
from bert.tasks.classification import class_labels, labeled_task
from bert.training import options as training_options


def test_batches_weigh_the_same_whatever_their_size():
    losses = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
    # Means 1.5, 3.5 and 9; all five together 3.8.
    assert labeled_task.mean_of_batch_means(losses, 2) == pytest.approx(14 / 3)
    assert labeled_task.mean_of_batch_means(losses, 5) == pytest.approx(3.8)


class _Toy(labeled_task.LabeledTask):
    kind, metric_names = "toy", ("f1", "accuracy")
    label_set = class_labels.LabelSet(names=("0", "1"))
    data_sets = make_objective = write_answers = None


class _Half(_Toy):
    """Labels of the first two examples alone."""

    def labeled_rows(self, data):
        return np.array([0, 1])


class _Labels:
    """The labels of records, one each."""

    def __init__(self, label_ids):
        self._label_ids = np.array(label_ids)[:, np.newaxis]

    def values(self, name):
        assert name == "label_ids"
        return self._label_ids


def _records(label_ids, split):
    data_set = task.DataSet(
        split=split,
        suffix="_b",
        kind="toy",
        made_from={},
        features=(),
        examples=tuple,
    )
    return task.Records(
        data_set=data_set,
        source=_Labels(label_ids),
        rows_per_example=np.ones(len(label_ids), int),
    )


def _scored(kind, gold, answers, losses, split="eval", **options):
    """Scores the answers of a task that gives 1 to the chosen class."""
    outputs = np.eye(2, dtype=np.float32)[answers]
    options = {"output_dir": "", "do_eval": True, **options}
    toy = kind(training_options.SequenceOptions(**options), None)
    answers = labeled_task.Answers(outputs=outputs, losses=np.array(losses))
    return toy.results(_records(gold, split), answers)


@pytest.mark.parametrize("names", [("0", "1"), ("1", "0")])
def test_f1_is_that_of_the_label_1_in_any_order_of_outputs(names):
    class _Ordered(_Toy):
        label_set = class_labels.LabelSet(names=names)

    ids = _Ordered.label_set.ids
    gold, answers = ["1", "1", "1", "0", "0"], ["1", "1", "0", "1", "0"]
    scores = _scored(
        _Ordered, [ids[x] for x in gold], [ids[x] for x in answers], np.ones(5)
    )
    # Two of three answers and two of three labels "1" are right.
    assert scores["eval_f1_b"] == pytest.approx(2 / 3)
    assert scores["eval_accuracy_b"] == pytest.approx(0.6)


def test_the_results_of_a_second_data_set_have_its_suffix(caplog):
    results = _scored(
        _Toy, [1, 0, 1], [1, 0, 0], [1.0, 2.0, 6.0], eval_batch_size=2
    )
    assert results == pytest.approx(
        {
            "loss_b": (1.5 + 6) / 2,
            "eval_loss_b": 3,
            "eval_accuracy_b": 2 / 3,
            "eval_f1_b": 2 / 3,
        }
    )
    assert "eval_b: n = 3; most frequent label: 1, 2 of 3 (66.7%)" in (
        caplog.text
    )


def test_a_test_set_has_the_scores_of_its_labeled_rows(caplog):
    results = _scored(
        _Half, [1, 0, 1], [1, 1, 0], [1.0, 2.0, 6.0], split="predict"
    )
    assert results == pytest.approx(
        {"test_loss_b": 1.5, "test_accuracy_b": 0.5, "test_f1_b": 2 / 3}
    )
    assert "n = 2; most frequent label: 0, 1 of 2 (50.0%)" in caplog.text
