"""Type aliases for annotations."""

from typing import Any, TypeAlias

import keras

# A tensor, a Keras variable or a NumPy array, which have no common type.
Tensor: TypeAlias = Any
# A Keras policy or its name; None for the global one.
Policy: TypeAlias = str | keras.DTypePolicy | None
