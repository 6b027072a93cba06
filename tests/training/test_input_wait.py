import time

import tensorflow as tf

from training import steps


def test_the_time_until_a_batch_is_there_is_measured():
    def slow(number):
        time.sleep(0.1)
        return number

    iterator = iter(
        tf.data.Dataset.range(2).map(
            lambda number: tf.numpy_function(slow, [number], tf.int64)
        )
    )

    @tf.function
    def step():
        return steps._timed_next(iterator)

    batch, seconds = step()
    assert batch.numpy() == 0
    assert 0.1 <= seconds.numpy() < 60
