"""Compilation of the arithmetic between matrix products, and recomputation.

Executed one by one, the operations between two matrix products pass over memory
many times; XLA needs one or two passes. The products are not compiled with
them, because those of TensorFlow are faster on a CPU.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import keras
import tensorflow as tf

# A tensor, a Keras variable or a NumPy array, which have no common type.
Tensor: TypeAlias = Any
# A Keras policy or its name; None for the global one.
Policy: TypeAlias = str | keras.DTypePolicy | None

# Compiling takes 0.1 to 0.6 s for each shape, and saves about a nanosecond
# per element and call.
_WORTH_COMPILING = 1 << 17
# What an unknown dimension counts as: the tokens of a text, or those of a batch
# in a matrix. Low numbers, because each shape that occurs is compiled.
_ASSUMED_LENGTH, _ASSUMED_ROWS = 32, 512

_in_pieces = contextvars.ContextVar("in_pieces", default=False)


@contextlib.contextmanager
def pieces(active: bool = True) -> Iterator[None]:
    """Compiles the `fused` functions that are called in its scope.

    Elsewhere they are plain formulas, for programs that XLA compiles as a whole
    and for float32 without gradients on a CPU: there TensorFlow fuses bias and
    GELU with the products, for any shape.
    """
    token = _in_pieces.set(active)
    try:
        yield
    finally:
        _in_pieces.reset(token)


def fused(
    function: Callable[..., Tensor],
    gradient: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Callable[..., Tensor]:
    """Returns a formula that is compiled in the scope of `pieces`.

    Then only the arguments are kept for the gradient, which computes
    intermediate values again. Both ways compute the same formula and may differ
    in the last bits. Small tensors are not compiled.

    Args:
        function: of tensors by position and of plain, hashable values by
            keyword. Its integer tensors, such as seeds, have no gradient.
        gradient: computes the gradient of the first tensor, the only one that
            has one, from that of the result and the result; then the result
            alone is kept.
    """
    forward = _jitted(function)

    def gradients_of(upstream, *tensors, **values):
        differentiable = [x for x in tensors if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(differentiable)
            result = function(*tensors, **values)
        found = iter(tape.gradient(result, differentiable, upstream))
        return [next(found) if x.dtype.is_floating else None for x in tensors]

    gradients_of.__name__ = f"{function.__name__}_gradient"  # In profiles.
    backward = _jitted(gradient or gradients_of)

    @functools.wraps(function)
    def call(*tensors, **values):
        # Variables are read here: inside they would count as arguments too.
        tensors = tuple(map(tf.convert_to_tensor, tensors))
        if not (_in_pieces.get() and _pays(tensors)):
            return function(*tensors, **values)

        @tf.custom_gradient
        def run(*tensors):
            result = forward(*tensors, **values)

            def gradients(upstream):
                if gradient is None:
                    return backward(upstream, *tensors, **values)
                return backward(upstream, result), *[None] * (len(tensors) - 1)

            return result, gradients

        return run(*tensors)

    return call


def _jitted(function):
    return tf.function(function, jit_compile=True, autograph=False)


def _pays(tensors) -> bool:
    return max(map(_num_elements, tensors)) >= _WORTH_COMPILING


def _num_elements(x) -> int:
    unknown = _ASSUMED_ROWS if len(x.shape) == 2 else _ASSUMED_LENGTH
    return math.prod(unknown if size is None else size for size in x.shape)


def recomputed(
    layer: keras.layers.Layer, hidden: Tensor, **others: Tensor
) -> Tensor:
    """Calls a layer, and calls it again in the backward pass.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".

    Between the two calls only `hidden` is kept. Both compute the same values,
    including dropout, which depends only on its seed.

    Args:
        layer: built; a pure function of its arguments and its weights.
        hidden: `[M, D]`; it and the weights get gradients.
        **others: further arguments, which get no gradient.

    Returns:
        The output of the layer: one tensor.
    """

    def call(hidden, *weights):
        result, _ = layer.stateless_call(
            weights, layer.non_trainable_variables, hidden, **others
        )
        return result

    # The weights are passed as tensors: a custom gradient that reads variables
    # must distinguish them from its arguments, which fails for mirrored ones.
    @tf.custom_gradient
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

    return compute(
        hidden, *(tf.convert_to_tensor(w) for w in layer.trainable_variables)
    )
