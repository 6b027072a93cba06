"""Compilation by XLA, of element-wise arithmetic or of complete passes.

Executed one by one, the operations between two matrix products pass over memory
many times; XLA needs one or two passes. On many CPUs the products of TensorFlow
are faster than those of XLA, so that only the arithmetic is compiled.
"""

import contextlib
import contextvars
import enum
import functools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import tensorflow as tf

from modeling.tensor_types import Tensor

_Outputs = TypeVar("_Outputs")
# Compiling takes 0.1 to 0.6 s for each shape, and saves about a nanosecond
# per element and call.
_WORTH_COMPILING = 1 << 17
# The sizes assumed of unknown dimensions: 32 tokens in a text (rank above 2),
# 512 rows in a matrix. They are low on purpose: each new shape is compiled.
_ASSUMED_LENGTH, _ASSUMED_ROWS = 32, 512


class ExecutionMode(enum.StrEnum):
    """The part of a forward (and backward) pass that XLA compiles."""

    PLAIN = "plain"  # None: one TensorFlow operation after the other.
    FUSED = "fused"  # The element-wise arithmetic between matrix products.
    XLA = "xla"  # All of it, as one function.

    def compiled(
        self, function: Callable[..., _Outputs]
    ) -> "tf.types.experimental.PolymorphicFunction":
        """Returns a graph of a pass that is executed in this mode.

        Args:
            function: of structures of tensors; one that XLA can compile.
        """

        # AutoGraph is switched off in all functions: no Python control flow
        # depends on a tensor, and the conversion takes 2.5 s of a program's
        # start.
        @tf.function(
            autograph=False, jit_compile=self is ExecutionMode.XLA or None
        )
        @functools.wraps(function)
        def run(*args: object) -> _Outputs:
            with in_mode(self):
                return function(*args)

        return run


_mode = contextvars.ContextVar[ExecutionMode | None]("mode", default=None)


@contextlib.contextmanager
def in_mode(mode: ExecutionMode | None) -> Iterator[None]:
    """Executes the `fused` formulas of its scope in a mode.

    Outside such a scope, and for None, they are plain formulas whose gradient
    is TensorFlow's, as in an exported model.
    """
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def fused(
    function: Callable[..., Tensor],
    gradient: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Callable[..., Tensor]:
    """Returns a formula that is compiled by itself in the mode `FUSED`.

    Then only the arguments are kept for the gradient, which computes
    intermediate values again. All modes compute the same formula and may differ
    in the last bits. Small tensors are not compiled.

    Args:
        function: of tensors by position and of plain, hashable values by
            keyword. Its integer tensors, such as seeds, have no gradient.
        gradient: computes the gradient of the first tensor, the only one that
            has one, from that of the result and the result. Then the result
            alone is kept, also in other modes.
    """
    forward = _jitted(function)

    def gradients_of(
        upstream: Tensor, *tensors: Tensor, **values: Hashable
    ) -> list[Tensor | None]:
        differentiable = [x for x in tensors if x.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(differentiable)
            result = function(*tensors, **values)
        gradients = iter(tape.gradient(result, differentiable, upstream))
        return [
            next(gradients) if x.dtype.is_floating else None for x in tensors
        ]

    gradients_of.__name__ = f"{function.__name__}_gradient"  # Profiles show it.
    backward = _jitted(gradient or gradients_of)

    @functools.wraps(function)
    def call(*tensors: Tensor, **values: Hashable) -> Tensor:
        # Variables are read here: inside they would count as arguments too.
        tensors = tuple(map(tf.convert_to_tensor, tensors))
        mode = _mode.get()
        if mode is ExecutionMode.FUSED and _pays(tensors):
            run_forward, run_backward = forward, backward
        elif mode in (None, ExecutionMode.FUSED) or gradient is None:
            return function(*tensors, **values)
        else:
            run_forward, run_backward = function, gradient

        @tf.custom_gradient
        def run(*tensors: Tensor) -> tuple[Tensor, Callable]:
            result = run_forward(*tensors, **values)

            def gradients(upstream: Tensor) -> Sequence[Tensor | None]:
                if gradient is None:
                    return run_backward(upstream, *tensors, **values)
                others = [None] * (len(tensors) - 1)
                return run_backward(upstream, result), *others

            return result, gradients

        return run(*tensors)

    return call


def _jitted(function: Callable[..., _Outputs]) -> Callable[..., _Outputs]:
    return tf.function(function, jit_compile=True, autograph=False)


def _pays(tensors: Iterable[Tensor]) -> bool:
    return max(map(_num_elements, tensors)) >= _WORTH_COMPILING


def _num_elements(x: Tensor) -> int:
    unknown = _ASSUMED_ROWS if len(x.shape) == 2 else _ASSUMED_LENGTH
    return math.prod(unknown if size is None else size for size in x.shape)
