"""TensorFlow's name-based checkpoints, the release's own format.

A checkpoint is `PREFIX.index` and `PREFIX.data-NNNNN-of-NNNNN` ("V2"), or one
file of the older "V1". Object-based files of the TensorFlow Model Garden are
read too (`tf_formats`).
"""

import contextlib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from files import messages, paths, writing
from modeling import tf_formats
from modeling.name_tables import Spec

if TYPE_CHECKING:
    from modeling.compilation import Tensor

_DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-(\d{5})$")
_STEP_SUFFIX = re.compile(r"-\d+$")
# Of the files written, in the order of renaming.
_SUFFIXES = (".data-00000-of-00001", ".index")
_QUERY = "bert/encoder/layer_0/attention/self/query/kernel"


class Reader:
    """Reads a checkpoint by name; see `checkpoints.Source`.

    Args:
        prefix: of its files, as `find` returns it.
        files: unused, for this format has no open files.

    Raises:
        ValueError: a file is broken, or the variables have no known names.
    """

    kind = "release"

    def __init__(self, prefix: str, files: contextlib.ExitStack):
        import tensorflow as tf

        self.origin = prefix
        self.architectures: tuple[str, ...] = ()
        self.num_attention_heads: int | None = None
        self._keys: Mapping[str, str] = {}
        with messages.broken(self.origin, "checkpoint"):
            self._reader = tf.train.load_checkpoint(prefix)
        types = self._reader.get_variable_to_dtype_map()
        held: dict[str, Spec] = {
            name: (tuple(shape), types[name].name)
            for name, shape in self._reader.get_variable_to_shape_map().items()
        }
        if held.pop(tf_formats.OBJECT_GRAPH, None):
            held = self._renamed(held)
        self.variables = dict(sorted(held.items()))

    def _renamed(self, held: Mapping[str, Spec]) -> dict[str, Spec]:
        with messages.broken(self.origin, "checkpoint"):
            self._keys, self.architectures = tf_formats.garden_keys(
                self._reader.get_tensor(tf_formats.OBJECT_GRAPH), held
            )
        self.kind = "Model Garden"
        if query := self._keys.get(_QUERY):
            self.num_attention_heads = held[query][0][1]  # [D, N, H]
        return {
            name: (tf_formats.release_shape(name, held[key][0]), held[key][1])
            for name, key in self._keys.items()
        }

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
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
    import tensorflow as tf

    if not tensors:
        raise ValueError(f"Checkpoint {prefix!r} would have no variables.")
    is_remote = paths.is_remote(prefix)
    aside = prefix if is_remote else writing.aside(prefix)
    folder = os.path.dirname(prefix)
    if folder:
        tf.io.gfile.makedirs(folder)
    try:
        tf.raw_ops.SaveV2(
            prefix=aside,
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=[tf.convert_to_tensor(t) for t in tensors.values()],
        )
        if not is_remote:
            _publish(aside, prefix)
    except BaseException as error:
        if not is_remote:
            for suffix in _SUFFIXES:
                paths.remove(aside + suffix)
        if isinstance(error, tf.errors.OpError):
            raise OSError(
                f"Checkpoint {prefix!r} could not be written: {error.message}. "
                "Free disk space, or write elsewhere."
            ) from error
        raise


def _publish(aside: str, prefix: str) -> None:
    for suffix in _SUFFIXES:
        writing.sync(aside + suffix)
    # An old index with new data would be a broken checkpoint.
    paths.remove(os.path.realpath(f"{prefix}.index"))
    for suffix in _SUFFIXES:
        os.replace(aside + suffix, os.path.realpath(prefix + suffix))
    writing.sync(os.path.dirname(prefix))


def prefix_of(path: str) -> str | None:
    """Returns the prefix of a "V2" checkpoint, or None.

    Args:
        path: a prefix, or one of its files (`.index`, `.data-*`, `.meta`).
    """
    import tensorflow as tf

    prefix = path.removesuffix(".index").removesuffix(".meta")
    prefix = _DATA_SUFFIX.sub("", prefix)
    return prefix if tf.io.gfile.exists(f"{prefix}.index") else None


def latest(folder: str) -> str | None:
    """Returns the latest checkpoint of a folder.

    It is the checkpoint named in the folder's `checkpoint` file, else the only
    one, else that of the highest step.

    Returns:
        The prefix; None if the folder has no checkpoint of this format.

    Raises:
        ValueError: there are several, and none is the latest.
    """
    import tensorflow as tf

    named = named_latest(folder)
    if named:
        return named
    found = sorted(
        os.path.join(folder, name.removesuffix(".index"))
        for name in tf.io.gfile.listdir(folder)
        if name.endswith(".index") and not name.startswith(".")
    )
    if len(found) < 2:
        return found[0] if found else None
    if all(map(_STEP_SUFFIX.search, found)):
        return max(found, key=lambda prefix: int(prefix.rpartition("-")[2]))
    raise ValueError(
        f"The folder {folder!r} must contain one checkpoint, or only numbered "
        f"ones; it contains {messages.names(found)}. Pass one of them."
    )


def named_latest(folder: str) -> str | None:
    """Returns the prefix named in a folder's `checkpoint` file.

    Returns None if the file or the checkpoint is missing, or the file is
    damaged.
    """
    import tensorflow as tf

    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:  # The file is empty, or not UTF-8.
        return None
    if state is None:
        return None
    exists = tf.io.gfile.exists
    # A folder that was copied may name its origin; its own file comes first.
    name = os.path.basename(state.model_checkpoint_path)
    for prefix in (os.path.join(folder, name), state.model_checkpoint_path):
        if name and (exists(f"{prefix}.index") or exists(prefix)):
            return prefix
    return None
