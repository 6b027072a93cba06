import numpy as np
import pytest
import tensorflow as tf

from training import accumulation, runtime


def test_parts_add_up_and_absent_gradients_stay_absent():
    features = {"x": tf.reshape(tf.range(12.0), [6, 2])}

    @tf.function
    def total(num_parts):
        def part(index):
            rows = features
            if num_parts > 1:
                rows = accumulation.part_of(features, index, num_parts)
            gradients = [tf.reduce_sum(rows["x"], axis=0), None]
            return gradients, {"count": (tf.shape(rows["x"])[0],)}

        gradients, sums = accumulation.summed_over_parts(part, num_parts)
        assert gradients[1] is None
        return gradients[0], sums

    for num_parts in (1, 2, 3, 6):
        gradient, sums = total(num_parts)
        np.testing.assert_array_equal(gradient, [30.0, 36.0])
        assert int(sums["count"][0]) == 6


def test_parts_are_consecutive_rows_of_known_shape():
    features = {"x": tf.reshape(tf.range(12), [6, 2]), "y": tf.range(6)}
    part = accumulation.part_of(features, tf.constant(2), 3)
    np.testing.assert_array_equal(part["x"], [[8, 9], [10, 11]])
    np.testing.assert_array_equal(part["y"], [4, 5])
    assert part["x"].shape == [2, 2]
    with pytest.raises(ValueError, match="got 6 and 4"):
        accumulation.part_of(features, tf.constant(0), 4)


def test_parts_drop_differently():
    seed = runtime.dropout_seed(runtime.seed_words(1), tf.constant(2), 3)
    seeds = {
        tuple(runtime.part_seed(seed, tf.constant(part)).numpy())
        for part in range(5)
    }
    assert len(seeds | {tuple(seed.numpy())}) == 6
