"""Functions that TensorFlow compiles for the shapes that they are given."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Beyond so many, compiling takes longer than it saves.
MAX_SHAPES = 16


class CompiledByShape:
    """Compiles a function for each shape of its input, while they are few.

    A graph of known shapes takes a quarter less time than one that leaves the
    length open (BERT-Mini, bfloat16, texts of SST-2). Shapes beyond the first
    few share such an open one.

    Args:
        function: takes a structure of tensors, or of values of replicas.
    """

    def __init__(self, function: Callable[[Any], Any]):
        self._function = function
        # A function each: one for all would warn that it is compiled anew.
        self._of_shape = {}
        self._of_any_shape = tf.function(
            function, autograph=False, reduce_retracing=True
        )

    def __call__(self, batch: Any) -> Any:
        """Returns what the function does."""
        shapes = tuple(
            tuple(value.shape)
            for value in tf.nest.flatten(batch, expand_composites=True)
        )
        if shapes not in self._of_shape:
            if len(self._of_shape) == MAX_SHAPES:
                return self._of_any_shape(batch)
            self._of_shape[shapes] = tf.function(
                self._function, autograph=False
            )
        return self._of_shape[shapes](batch)
