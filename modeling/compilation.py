"""Compiled arithmetic, custom gradients and recomputation on TensorFlow.

Operation by operation, the arithmetic between two matrix products reads and
writes its tensors many times. XLA needs one or two passes; the matrix
products stay outside, where TensorFlow's own are faster on a CPU. On other
backends, which compile whole programs, everything here is the identity.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras

from modeling.annotations import Tensor

# Compiling takes 0.1 to 0.6 s for each shape, and saves about a nanosecond
# per element and call.
_WORTH_COMPILING = 1 << 17


def is_tensorflow() -> bool:
    """Tells whether Keras runs on TensorFlow."""
    return keras.backend.backend() == "tensorflow"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function of tensors where that pays.

    It does for large tensors of known shape, and on a GPU always; elsewhere
    the function runs as it is. Both compute the same formula and may differ in
    the last bits; which one runs depends on the shapes alone.

    Args:
        function: a function of the module level, of tensors by position and
            of plain, hashable values by keyword.
    """

    def call(*tensors, **values):
        if is_tensorflow() and _pays(tensors):
            return _jitted(function)(*tensors, **values)
        return function(*tensors, **values)

    return call


def with_gradient(function: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """Calls a function that has its own gradient.

    Args:
        function: of tensors; returns its result, and a function from the
            gradient of that to the gradients of each of the tensors. Backends
            other than TensorFlow differentiate the result themselves.
        *tensors: those that the result depends on; variables are read.
    """
    values = [keras.ops.convert_to_tensor(tensor) for tensor in tensors]
    if not is_tensorflow():
        return function(*values)[0]
    import tensorflow as tf

    # Variables are read here: inside they would count as arguments too.
    return tf.custom_gradient(function)(*map(tf.convert_to_tensor, values))


def recomputed(
    layer: keras.layers.Layer, hidden: Tensor, **others: Tensor
) -> Tensor:
    """Calls a layer; in the backward pass, calls it again for its gradients.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".

    Between the two only `hidden` is kept, nothing of what the layer computes
    on its way to the result. Both calls compute the same, dropout included,
    which depends on its seed alone. On other backends than TensorFlow it is
    the plain call.

    Args:
        layer: built; a pure function of its arguments and its weights.
        hidden: `[B, T, D]`; it and the weights get gradients.
        **others: further arguments, which get no gradient.

    Returns:
        The output of the layer: one tensor.
    """
    if not is_tensorflow():
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


@functools.cache
def _jitted(function):
    import tensorflow as tf

    return tf.function(function, jit_compile=True, autograph=False)


def _pays(tensors) -> bool:
    shapes = [tensor.shape for tensor in tensors]
    if any(None in shape for shape in shapes):
        return False
    return _has_gpu() or max(map(math.prod, shapes)) >= _WORTH_COMPILING


@functools.cache
def _has_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
