"""Types used in annotations."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import keras

# A tensor of the Keras backend, a Keras variable or a NumPy array, which have
# no common type.
Tensor: TypeAlias = Any
# Rate and seed, as for `kernels.dropout`.
Dropout: TypeAlias = tuple[float, Tensor | None]
# A Keras policy or its name; None for the global one.
Policy: TypeAlias = "str | keras.DTypePolicy | None"
# An array's shape, and NumPy's name of its type.
Spec: TypeAlias = tuple[tuple[int, ...], str]
