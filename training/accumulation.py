"""One update from a batch that is gone through in parts.

The parts of a replica's rows are taken one after the other, so that no more
than one of them needs memory for its activations. Their losses are divided by
the denominators of the whole batch: the sums of their losses and of their
gradients are those of the batch.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

Gradients = Sequence[tf.Tensor | None]


def summed_over_parts(
    part: Callable[[Any], tuple[Gradients, Any]], num_parts: int
) -> tuple[list[tf.Tensor | None], Any]:
    """Adds up what the parts of a batch give.

    Args:
        part: takes the number of a part, `[]` int32 from 0; returns gradients,
            None for a variable that has none, and a structure of tensors.
        num_parts: how many there are.

    Returns:
        The sums of the gradients, None where there are none, and of the
        structures.
    """
    gradients, sums = part(tf.constant(0))
    if num_parts == 1:
        return list(gradients), sums
    first = present(gradients)
    # Else TensorFlow would go forward through the next part while it still
    # holds the activations of this one.
    with tf.control_dependencies(first):
        start = tf.constant(1)

    def add_part(index, gradients, sums):
        more, others = part(index)
        added = tf.nest.map_structure(tf.add, sums, others)
        return index + 1, list(map(tf.add, gradients, present(more))), added

    _, summed, sums = tf.while_loop(
        lambda index, *_: index < num_parts,
        add_part,
        (start, first, sums),
        parallel_iterations=1,
    )
    return where_present(gradients, summed), sums


def part_of(
    features: Mapping[str, tf.Tensor], index: tf.Tensor, num_parts: int
) -> dict[str, tf.Tensor]:
    """Takes one of the equal parts of a batch.

    Args:
        features: `[B, ...]` each.
        index: `[]` int32, the number of the part.
        num_parts: how many there are.

    Returns:
        `[B / num_parts, ...]` each.

    Raises:
        ValueError: B does not divide.
    """

    def rows_of(value):
        num_rows = value.shape[0]
        if num_rows % num_parts:
            raise ValueError(
                "The rows of a replica must divide among the accumulation "
                f"steps; got {num_rows} and {num_parts}."
            )
        size = num_rows // num_parts
        rows = value[index * size : (index + 1) * size]
        return tf.ensure_shape(rows, [size, *value.shape[1:]])

    return {name: rows_of(value) for name, value in features.items()}


def present(gradients: Gradients) -> list[tf.Tensor]:
    """Leaves out the places without a gradient."""
    return [gradient for gradient in gradients if gradient is not None]


def where_present(
    gradients: Gradients, values: Sequence[tf.Tensor]
) -> list[tf.Tensor | None]:
    """Puts values in the places of the gradients that are present."""
    left = iter(values)
    return [g if g is None else next(left) for g in gradients]
