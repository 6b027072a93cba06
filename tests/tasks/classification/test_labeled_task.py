"""Losses of examples and of batches."""

import types

import numpy as np
import pytest

from tasks.classification import labeled_task


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
