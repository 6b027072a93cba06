"""Type aliases for annotations."""

from collections.abc import Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

# NumPy arrays are accepted too, as everywhere in TensorFlow.
Tensor: TypeAlias = tf.Tensor | keras.Variable
# The shape of the input that Keras passes to `build`.
Shape: TypeAlias = Sequence[int | None] | None
# A Keras policy or its name; None for the global one.
Policy: TypeAlias = str | keras.DTypePolicy | None
