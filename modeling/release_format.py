"""TensorFlow's name-based checkpoints, the original's own format.

A checkpoint is `PREFIX.index` and `PREFIX.data-NNNNN-of-NNNNN` ("V2"), or one
file of the older "V1". The object-based checkpoints of the TensorFlow Model
Garden have the same files.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from bert.files import messages, paths, tensorflow_start, writing
from modeling import model_garden
from modeling.name_tables import Spec

if TYPE_CHECKING:
    from modeling.tensor_types import Tensor

# The endings of the files, in the order of renaming.
_SUFFIXES = (".data-00000-of-00001", ".index")


class Reader:
    """Reads a checkpoint by name.

    Args:
        prefix: of its files, as `checkpoints.find` returns it.

    Attributes:
        kind: the name of its format.
        origin: its prefix or file.
        variables: shape and type by the release's name.
        architectures: Hugging Face's names of its classes, if known.
        num_attention_heads: of its encoder, if its variables show it.

    Raises:
        ValueError: a file is broken, or the variables have no known names.
    """

    kind = "release"

    def __init__(self, prefix: str):
        tensorflow_start.load()
        import tensorflow as tf

        self.origin = prefix
        self.architectures: tuple[str, ...] = ()
        self.num_attention_heads: int | None = None
        self._keys: Mapping[str, str] = {}
        with messages.broken(self.origin, "checkpoint"):
            self._reader = tf.train.load_checkpoint(prefix)
        types = self._reader.get_variable_to_dtype_map()
        stored: dict[str, Spec] = {
            name: (tuple(shape), types[name].name)
            for name, shape in self._reader.get_variable_to_shape_map().items()
        }
        if stored.pop(model_garden.OBJECT_GRAPH, None):
            stored = self._renamed(stored)
        self.variables = dict(sorted(stored.items()))

    def _renamed(self, stored: Mapping[str, Spec]) -> dict[str, Spec]:
        with messages.broken(self.origin, "checkpoint"):
            self._keys, self.architectures = model_garden.keys_by_name(
                self._reader.get_tensor(model_garden.OBJECT_GRAPH), stored
            )
        self.kind = model_garden.KIND
        if query := self._keys.get(model_garden.QUERY):
            self.num_attention_heads = stored[query][0][1]  # [D, N, H]
        return {
            name: (
                model_garden.release_shape(name, stored[key][0]),
                stored[key][1],
            )
            for name, key in self._keys.items()
        }

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name, as it is stored."""
        with messages.broken(self.origin, "checkpoint"):
            key = self._keys.get(name, name)
            value = np.asarray(self._reader.get_tensor(key))
        if not self._keys:
            return value
        if name.endswith("output_weights"):
            return value.T
        return value.reshape(self.variables[name][0])


def write(prefix: str, tensors: "Mapping[str, Tensor]") -> None:
    """Atomically writes a checkpoint.

    Temporary files are written, synced to disk and renamed, the index last:
    without it there is no checkpoint. Remote stores publish a file only when
    it is closed, so their files are written in place.

    Args:
        prefix: of the checkpoint; its folder is created if missing.
        tensors: arrays, tensors or variables by the release's names.

    Raises:
        OSError: the files cannot be written.
        ValueError: there is nothing to save.
    """
    tensorflow_start.load()
    import tensorflow as tf

    if not tensors:
        raise ValueError(f"Checkpoint {prefix!r} would have no variables.")
    is_remote = paths.is_remote(prefix)
    partial = prefix if is_remote else writing.partial_path(prefix)
    tf.io.gfile.makedirs(os.path.dirname(prefix))
    try:
        tf.raw_ops.SaveV2(
            prefix=partial,
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.convert_to_tensor(t) for t in tensors.values()],
        )
        if not is_remote:
            _publish(partial, prefix)
    except BaseException as error:
        if not is_remote:
            for suffix in _SUFFIXES:
                paths.remove(partial + suffix)
        if isinstance(error, tf.errors.OpError):
            raise OSError(
                f"Checkpoint {prefix!r} could not be written: {error.message}. "
                "Free disk space, or write elsewhere."
            ) from error
        raise


def _publish(partial: str, prefix: str) -> None:
    for suffix in _SUFFIXES:
        writing.sync(partial + suffix)
    # An old index with new data would be a broken checkpoint.
    paths.remove(os.path.realpath(f"{prefix}.index"))
    for suffix in _SUFFIXES:
        os.replace(partial + suffix, os.path.realpath(prefix + suffix))
    writing.sync(os.path.dirname(prefix))
