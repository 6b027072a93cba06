"""Tasks whose examples have a label each."""

import numpy as np
import pytest

from tasks.classification import predictions


def test_batches_weigh_the_same_whatever_their_size():
    losses = np.array([1.0, 2.0, 3.0, 4.0, 9.0])
    # Means 1.5, 3.5 and 9; all five together 3.8.
    assert predictions.mean_of_batch_means(losses, 2) == pytest.approx(14 / 3)
    assert predictions.mean_of_batch_means(losses, 5) == pytest.approx(3.8)
