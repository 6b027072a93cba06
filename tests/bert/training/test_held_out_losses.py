"""Averages of losses and metrics over batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert.records import reading, schema, tfrecords
from bert.tasks import objectives
from bert.training import options as training_options
from bert.training import pretraining


class _Sums:
    """Its losses and its metric are sums of what the records say."""

    def __init__(self):
        layers = [keras.Input((1,)), keras.layers.Dense(1)]
        self.model = keras.Sequential(layers)

    def denominators(self, features):
        return {}

    def outcome(self, features, denominators, dropout_seed):
        sums = tf.reduce_sum(
            tf.cast(features["input_ids"], tf.float32)
            * features["example_weights"][:, tf.newaxis],
            axis=0,
        )
        return objectives.Outcome(
            losses={"a": sums[0], "b": sums[1]},
            metrics={"accuracy": (sums[2], sums[3])},
        )


@pytest.mark.parametrize(
    ("numbers", "num_batches", "expected"),
    [
        # Batches of the losses 3 and 5 and of the weights 4 and 2.
        (
            [[1, 1, 1, 1], [0, 1, 2, 3], [4, 1, 0, 2]],
            0,
            {"loss": 4.0, "accuracy": 0.5},
        ),
        (
            [[1, 1, 1, 1], [0, 1, 2, 3], [4, 1, 0, 2]],
            1,
            {"loss": 3.0, "accuracy": 0.75},
        ),
        ([[1, 0, 0, 0]], 0, {"loss": 1.0, "accuracy": 0.0}),
    ],
)
def test_the_loss_is_a_mean_over_batches_and_a_metric_over_weights(
    tmp_path, numbers, num_batches, expected
):
    path = str(tmp_path / "records")
    tfrecords.write_batches([path], [{"input_ids": np.array(numbers)}])
    source = reading.RecordSource(
        files=tfrecords.RecordFiles([path]),
        features=[schema.Feature(name="input_ids", shape=(4,))],
        vocab_size=9,
    )
    options = training_options.PretrainingOptions(
        input_file=path,
        output_dir="out",
        bert_config_file="",
        do_eval=True,
        eval_batch_size=2,
        max_eval_steps=num_batches,
    )
    losses = pretraining.HeldOutLosses(
        tf.distribute.OneDeviceStrategy("/CPU:0"), source, options
    )
    assert losses.score(_Sums()) == expected
