"""Less memory for more arithmetic: a layer's inside is computed a second time.

Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

from typing import Any

import keras


def recomputed(layer: keras.layers.Layer, hidden: Any, **others: Any) -> Any:
    """Calls a layer; on the way back, calls it once more for its gradients.

    Between the two only `hidden` is kept, nothing of what the layer computes
    on its way to the result. Both calls compute the same, dropout included,
    which depends on its seed alone. On other backends than TensorFlow it is
    the plain call.

    Args:
        layer: built; a pure function of its arguments and its weights.
        hidden: `[B, T, D]`, what gradients go back to, beside the weights.
        **others: further arguments, which get no gradient.

    Returns:
        What the layer returns: one tensor.
    """
    if keras.backend.backend() != "tensorflow":
        return layer(hidden, **others)
    import tensorflow as tf

    def call(hidden, *weights):
        result, _ = layer.stateless_call(
            weights, layer.non_trainable_variables, hidden, **others
        )
        return result

    # The weights come in as tensors: a custom gradient that reads variables
    # must tell them from its arguments, which fails for copies on devices.
    def compute(hidden, *weights):
        def gradient(upstream):
            # Else TensorFlow would see twice the same and compute it once.
            with tf.control_dependencies([upstream]):
                inputs = [tf.identity(each) for each in (hidden, *weights)]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                result = call(*inputs)
            return tape.gradient(result, inputs, upstream)

        return call(hidden, *weights), gradient

    weights = [tf.convert_to_tensor(w) for w in layer.trainable_variables]
    return tf.custom_gradient(compute)(hidden, *weights)
