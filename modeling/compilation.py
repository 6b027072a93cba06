"""Stretches of arithmetic compiled into one pass over memory, on TensorFlow.

Run operation by operation, what lies between two matrix products reads and
writes its tensors many times. XLA makes one or two passes of it; the matrix
products stay outside, where TensorFlow's own are faster on a CPU. On other
backends, which compile whole programs, everything here is the identity.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras

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


def with_gradient(function: Callable[..., Any], *tensors: Any) -> Any:
    """Calls a function that brings its own gradient.

    Args:
        function: of tensors; returns its result, and a function from the
            gradient of that to the gradients of each of the tensors. Backends
            other than TensorFlow differentiate the result themselves.
        *tensors: what the result depends on; variables are read.
    """
    tensors = [keras.ops.convert_to_tensor(tensor) for tensor in tensors]
    if not is_tensorflow():
        return function(*tensors)[0]
    import tensorflow as tf

    # Variables are read here: inside they would count as arguments too.
    return tf.custom_gradient(function)(*map(tf.convert_to_tensor, tensors))


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
