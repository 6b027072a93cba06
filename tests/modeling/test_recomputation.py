import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, compilation
from tests import toy_config

_CONFIG = toy_config.config(num_hidden_layers=2)


@pytest.fixture(scope="module")
def model():
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(3)
    return bert.BertModel(_CONFIG)


def _gradients(model, *, recompute):
    """Returns the output and the gradients by path, with dropout."""
    model.encoder.recompute = recompute
    ids = tf.constant([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
    variables = [weight.value for weight in model.trainable_weights]

    @tf.function
    def compute():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            outputs = model(
                ids,
                tf.cast(ids > 0, tf.int32),
                dropout_seed=tf.constant([5, 9]),
            )
            total = tf.reduce_sum(tf.square(outputs["pooled_output"]))
            total += tf.reduce_sum(outputs["sequence_output"] ** 3)
        gradients = tape.gradient(total, variables)
        dense = [tf.convert_to_tensor(g) for g in gradients]
        return outputs["sequence_output"], dense

    concrete = compute.get_concrete_function()
    output, gradients = compute()
    return output, gradients, concrete


@pytest.mark.slow
def test_gradients_are_the_same_with_dropout(model):
    output, gradients, _ = _gradients(model, recompute=False)
    again, others, _ = _gradients(model, recompute=True)
    np.testing.assert_array_equal(output, again)
    for weight, one, other in zip(
        model.trainable_weights, gradients, others, strict=True
    ):
        # The same sums in the same order: one rounding apart at most.
        np.testing.assert_allclose(
            one, other, rtol=2e-7, atol=1e-6, err_msg=weight.path
        )
        assert np.any(one), weight.path


@pytest.mark.slow
def test_layers_run_a_second_time_and_only_then(model):
    *_, plain = _gradients(model, recompute=False)
    *_, doubled = _gradients(model, recompute=True)

    def num_products(concrete):
        names = [op.type for op in concrete.graph.get_operations()]
        return sum("MatMul" in name for name in names)

    # Of each layer: query, key, value, output, and the feed-forward's two.
    least = 6 * _CONFIG.num_hidden_layers
    assert num_products(doubled) >= num_products(plain) + least


def test_gradients_go_back_through_any_layer():
    layer = keras.layers.Dense(3)
    layer.build((None, 2))
    x = tf.ones([1, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = compilation.recomputed(layer, x)
    kernel = layer.kernel.numpy()
    np.testing.assert_allclose(
        tape.gradient(result, x)[0], kernel.sum(axis=1), rtol=1e-6
    )
