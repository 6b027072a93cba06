"""Losses of examples and of batches."""

import types

import numpy as np
import pytest

from bert.tasks.classification import class_labels, labeled_task


def test_each_example_has_the_mean_loss_of_its_windows():
    data = types.SimpleNamespace(rows_per_example=[2, 1])
    outputs = np.array([[0.2, 0.8], [0.4, 0.6], [1, 0]], np.float32)
    answers = labeled_task.LabeledTask.decode(
        None,
        data,
        {"outputs": outputs, "losses": np.array([1, 3, 5], np.float32)},
    )
    assert answers.losses.tolist() == [2, 5]
    assert len(answers.outputs) == 2


def test_batches_weigh_the_same_whatever_their_size():
    losses = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
    # Means 1.5, 3.5 and 9; all five together 3.8.
    assert labeled_task.mean_of_batch_means(losses, 2) == pytest.approx(14 / 3)
    assert labeled_task.mean_of_batch_means(losses, 5) == pytest.approx(3.8)


@pytest.mark.parametrize("names", [("0", "1"), ("1", "0")])
def test_f1_is_that_of_the_label_1_in_any_order_of_outputs(names):
    label_set = class_labels.LabelSet(names=names)
    gold, answers = ["1", "1", "1", "0", "0"], ["1", "1", "0", "1", "0"]
    outputs = np.eye(2, dtype=np.float32)[[label_set.ids[a] for a in answers]]
    data = types.SimpleNamespace(
        label_ids=np.array([[label_set.ids[label]] for label in gold])
    )
    model = types.SimpleNamespace(
        label_set=label_set,
        metric_names=("f1", "accuracy"),
        label_ids=lambda data: data.label_ids[:, 0],
    )
    scores = labeled_task.LabeledTask.metrics(
        model,
        data,
        labeled_task.Answers(outputs=outputs, losses=np.ones(5)),
    )
    # Two of three answers and two of three labels "1" are right.
    assert scores == pytest.approx({"loss": 1, "f1": 2 / 3, "accuracy": 0.6})


class _Toy(labeled_task.LabeledTask):
    kind, metric_names = "toy", ("accuracy",)
    label_set = class_labels.LabelSet(names=("0", "1"))
    data_sets = make_objective = write_answers = None


def test_the_results_of_a_second_data_set_have_its_suffix():
    task = _Toy(types.SimpleNamespace(eval_batch_size=2), None)
    data = types.SimpleNamespace(
        data_set=types.SimpleNamespace(suffix="_b", split="eval"),
        label_ids=np.array([[1], [0], [1]]),
    )
    answers = labeled_task.Answers(
        outputs=np.eye(2, dtype=np.float32)[[1, 0, 0]],
        losses=np.array([1.0, 2.0, 6.0]),
    )
    assert task.results(data, answers) == pytest.approx(
        {
            "loss_b": (1.5 + 6) / 2,
            "eval_loss_b": 3,
            "eval_accuracy_b": 2 / 3,
        }
    )
