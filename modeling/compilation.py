"""Compiled arithmetic, gradients and recomputation on TensorFlow.

Executed one by one, the operations between two matrix products pass over
memory many times; XLA needs one or two passes. Matrix products are not
compiled, because those of TensorFlow are faster on a CPU. Other backends
compile complete programs; there, these functions have no effect.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import keras

# A tensor of the Keras backend, a Keras variable or a NumPy array, which have
# no common type.
Tensor: TypeAlias = Any
# Rate and seed, as for `kernels.dropout`.
Dropout: TypeAlias = tuple[float, Tensor | None]
# A Keras policy or its name; None for the global one.
Policy: TypeAlias = str | keras.DTypePolicy | None

# Compiling takes 0.1 to 0.6 s for each shape, and saves about a nanosecond
# per element and call.
_WORTH_COMPILING = 1 << 17
# What an unknown dimension counts as: the tokens of a text, or those of a batch
# in a matrix. Low numbers, because each shape that occurs is compiled.
_ASSUMED_LENGTH, _ASSUMED_ROWS = 32, 512

_forward_only = contextvars.ContextVar("forward_only", default=False)
_each_shape = contextvars.ContextVar("each_shape", default=False)


def is_tensorflow() -> bool:
    """Returns whether Keras runs on TensorFlow."""
    return keras.backend.backend() == "tensorflow"


def fuses_products() -> bool:
    """Returns whether TensorFlow fuses plain operations with matrix products.

    On a CPU its graph optimizer fuses bias and GELU with float32 products,
    for any shape: a graph of unknown length is faster than XLA's for a fixed
    length, and is created once. In bfloat16 the fused products are slower (two
    to three times, with AMX) than plain products followed by XLA's arithmetic.
    """
    if not is_tensorflow():
        return False
    import tensorflow as tf

    devices = tf.config.list_logical_devices()
    return (
        all(device.device_type == "CPU" for device in devices)
        and keras.config.dtype_policy().compute_dtype == "float32"
    )


@contextlib.contextmanager
def forward_only() -> Iterator[None]:
    """Declares that nothing in its scope is differentiated.

    Where `fuses_products` is true, plain operations are used in it.
    """
    token = _forward_only.set(fuses_products())
    try:
        yield
    finally:
        _forward_only.reset(token)


@contextlib.contextmanager
def each_shape() -> Iterator[None]:
    """Declares that tensors of unknown shape in its scope have few shapes.

    `compiled` then compiles its functions for each shape that occurs.
    """
    token = _each_shape.set(True)
    try:
        yield
    finally:
        _each_shape.reset(token)


def is_forward_only() -> bool:
    """Returns whether to use plain operations, which TensorFlow fuses."""
    return _forward_only.get()


def is_plain() -> bool:
    """Returns whether to compute the plain formulas."""
    return _forward_only.get() or not is_tensorflow()


def sum_with_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Adds `[D]` to `[..., D]`, in the form that TensorFlow fuses."""
    if not is_forward_only():
        return x + bias
    import tensorflow as tf

    return tf.nn.bias_add(x, bias)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles a function of tensors where that saves time.

    These are large tensors, and on a GPU all tensors, of known shape or in the
    scope of `each_shape`; otherwise the function runs uncompiled. Both compute
    the same formula and may differ in the last bits; the choice depends only on
    the shapes.

    Args:
        function: a function of the module level, of tensors by position and
            of plain, hashable values by keyword.
    """

    def call(*tensors, **values):
        if not is_plain() and _pays(tensors):
            return _jitted(function)(*tensors, **values)
        return function(*tensors, **values)

    return call


def with_gradient(function: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """Calls a function that has its own gradient.

    Args:
        function: of tensors; returns its result, and a function from the
            gradient of the result to the gradients of the tensors. Backends
            other than TensorFlow differentiate the result themselves.
        *tensors: the arguments that get gradients; variables are read.
    """
    values = [keras.ops.convert_to_tensor(tensor) for tensor in tensors]
    if is_plain():
        return function(*values)[0]
    import tensorflow as tf

    # Variables are read here: inside they would count as arguments too.
    return tf.custom_gradient(function)(*map(tf.convert_to_tensor, values))


def fused(
    function: Callable[..., Tensor],
    *tensors: Tensor,
    constants: tuple[Tensor, ...] = (),
    **values: Any,
) -> Tensor:
    """Calls a `compiled` function; keeps only its arguments for gradients.

    The backward pass is another `compiled` function, which computes
    intermediate values again. What does not pay to compile is small: TensorFlow
    differentiates it as usual.

    Args:
        function: as for `compiled`; returns one tensor.
        *tensors: its first arguments, which get gradients.
        constants: its other tensors, such as seeds.
        **values: its keyword arguments.
    """
    if is_plain() or not _pays(tensors):
        return function(*tensors, *constants, **values)

    def compute(*tensors):
        def gradient(upstream):
            return compiled(_gradient_of(function, len(tensors)))(
                upstream, *tensors, *constants, **values
            )

        return compiled(function)(*tensors, *constants, **values), gradient

    return with_gradient(compute, *tensors)


@functools.cache
def _gradient_of(function, num_tensors):
    """Returns the gradients of the first tensors as a function, to compile."""
    import tensorflow as tf

    def gradient(upstream, *tensors, **values):
        with tf.GradientTape() as tape:
            tape.watch(tensors[:num_tensors])
            result = function(*tensors, **values)
        return tape.gradient(result, tensors[:num_tensors], upstream)

    gradient.__name__ = f"{function.__name__}_gradient"  # In profiles.
    return gradient


def recomputed(
    layer: keras.layers.Layer, hidden: Tensor, **others: Tensor
) -> Tensor:
    """Calls a layer, and calls it again in the backward pass.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".

    Between the two calls only `hidden` is kept. Both compute the same values,
    including dropout, which depends only on its seed. On backends other than
    TensorFlow it is a plain call.

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

    # The weights are passed as tensors: a custom gradient that reads variables
    # must distinguish them from its arguments, which fails for mirrored ones.
    def compute(hidden, *weights):
        def gradient(upstream):
            # Otherwise TensorFlow would merge the two equal computations.
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
    if any(None in shape for shape in shapes) and not _each_shape.get():
        return False
    return _has_gpu() or max(map(_num_elements, shapes)) >= _WORTH_COMPILING


def _num_elements(shape) -> int:
    unknown = _ASSUMED_ROWS if len(shape) == 2 else _ASSUMED_LENGTH
    return math.prod(unknown if size is None else size for size in shape)


@functools.cache
def _has_gpu() -> bool:
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
