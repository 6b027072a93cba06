"""The network that the runs of a grid share."""

import weakref

import keras
import pytest
import tensorflow as tf

from bert.tasks import task
from bert.tasks.classification import objective as classification_objective
from bert.training import network


def _network(created):
    def make():
        layers = [keras.Input((1,)), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        created.append(weakref.ref(model))
        return classification_objective.ClassificationObjective(
            model, task.REGRESSION
        )

    return network.Network(tf.distribute.OneDeviceStrategy("/CPU:0"), make)


def test_trials_hold_one_model_in_memory():
    created = []
    shared = _network(created)
    for _ in range(3):
        shared.reset_weights(7)
        assert [reference() is not None for reference in created] == [
            True,
            *[False] * (len(created) - 1),
        ]


def test_weights_are_those_of_the_seed():
    shared = _network([])
    with pytest.raises(RuntimeError, match="no weights yet"):
        _ = shared.objective
    drawn = []
    for seed in (7, 8, 7):
        shared.reset_weights(seed)
        kernel, _ = shared.objective.model.get_weights()
        drawn.append(float(kernel.item()))
    assert drawn[0] == drawn[2] != drawn[1]
