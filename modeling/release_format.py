"""TensorFlow's name-based checkpoints, the release's own format.

A checkpoint is `PREFIX.index` and `PREFIX.data-NNNNN-of-NNNNN` ("V2"), or one
file of the older "V1". Checkpoints of the TensorFlow Model Garden are
object-based files of the same kind: their keys are paths of attributes, which
depend on the class that was saved. The names that layers gave their variables
do not; the checkpoint's object graph contains them.
"""

import collections
import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from files import messages, paths, writing
from modeling import name_tables
from modeling.name_tables import Spec

if TYPE_CHECKING:
    from modeling.compilation import Tensor

_T = TypeVar("_T")

_DATA_SUFFIX = re.compile(r"\.data-\d{5}-of-(\d{5})$")
_STEP_SUFFIX = re.compile(r"-(\d+)$")
# TensorFlow reads a prefix as a pattern, in which these are special characters.
_PATTERN = re.compile(r"[\[\\]")
# Of the files written, in the order of renaming.
_SUFFIXES = (".data-00000-of-00001", ".index")
# Attributes of the Model Garden's encoders in object checkpoints.
_GARDEN = re.compile(
    r"(^|/)(layer_with_weights-\d+|_?transformer_layers/\d+|_embedding_layer"
    r"|_position_embedding_layer|_attention_layer)(/|$)"
)
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_GARDEN_SCOPE = "model_garden/"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIMIZER = re.compile(r"^optimizer/|/\.OPTIMIZER_SLOT/")
_GLOBAL_STEP = "global_step"
_LAYER, _OURS = r"transformer/layer_(\d+)", r"bert/encoder/layer_\1"
# Source: the names of tf-models-official 2.20.
_GARDEN_NAMES = (
    ("word_embeddings/embeddings", "bert/embeddings/word_embeddings"),
    ("position_embedding/embeddings", "bert/embeddings/position_embeddings"),
    ("type_embeddings/embeddings", "bert/embeddings/token_type_embeddings"),
    (r"embeddings/layer_norm/(\w+)", r"bert/embeddings/LayerNorm/\1"),
    (
        rf"{_LAYER}/self_attention/(query|key|value)/(\w+)",
        rf"{_OURS}/attention/self/\2/\3",
    ),
    *(
        (rf"{_LAYER}/{theirs}/(\w+)", rf"{_OURS}/{ours}/\2")
        for theirs, ours in (
            ("self_attention/attention_output", "attention/output/dense"),
            ("self_attention_layer_norm", "attention/output/LayerNorm"),
            ("intermediate", "intermediate/dense"),
            ("output", "output/dense"),
            ("output_layer_norm", "output/LayerNorm"),
        )
    ),
    (r"pooler_(?:transform|dense)/(\w+)", r"bert/pooler/dense/\1"),
    (r"(cls/predictions/transform/\w+/\w+)", r"\1"),
    ("cls/predictions/output_bias/bias", "cls/predictions/output_bias"),
    ("next_sentence/logits/kernel", "cls/seq_relationship/output_weights"),
    ("next_sentence/logits/bias", "cls/seq_relationship/output_bias"),
    ("logits/kernel", "output_weights"),
    ("logits/bias", "output_bias"),
)
# A head with a hidden layer contains the pooler; the encoder's is then unused.
_HEAD_POOLER = "/pooler_dense/"
_POOLER = "pooler_transform/"
# The layers that score answers and tags have the same name at different depths.
_WORDS = "predictions/transform/logits/"
_SPAN = re.compile(r"layer_with_weights-\d+/layer_with_weights-\d+/\w+$")
_QUERY = "bert/encoder/layer_0/attention/self/query/kernel"


class Reader:
    """Reads a checkpoint by name; see `checkpoints.Source`.

    Args:
        prefix: of its files, as `find` returns it.
        files: removes the links to them, if any.

    Raises:
        FileNotFoundError: a data file is missing.
        ValueError: a file is broken, or the variables have no known names.
    """

    kind = "release"

    def __init__(self, prefix: str, files: contextlib.ExitStack):
        import tensorflow as tf

        self.origin = prefix
        self.architectures: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        _check_shards(prefix)
        if _PATTERN.search(prefix) and not paths.is_remote(prefix):
            folder = files.enter_context(tempfile.TemporaryDirectory())
            prefix = _link(prefix, folder)
        self._reader = self._try(tf.train.load_checkpoint, prefix)
        types = self._reader.get_variable_to_dtype_map()
        self.variables: dict[str, Spec] = {
            name: (tuple(shape), types[name].name)
            for name, shape in sorted(
                self._reader.get_variable_to_shape_map().items()
            )
        }
        self.num_attention_heads: int | None = None
        self._keys: Mapping[str, str] = {}
        if self.variables.pop(_OBJECT_GRAPH, None):
            self._rename()

    def _rename(self) -> None:
        """Renames the Model Garden's variables to the release's names."""
        graph = self._try(self._reader.get_tensor, _OBJECT_GRAPH)
        names = self._try(_full_names, graph)
        self._keys, self.architectures = _garden_keys(names, self.variables)
        query = self._keys.get(_QUERY)
        if query is None or name_tables.WORD_EMBEDDINGS not in self._keys:
            raise ValueError(_object_checkpoint(self.origin, self.variables))
        self.kind = "Model Garden"
        self.num_attention_heads = self.variables[query][0][1]
        for name, key in self._keys.items():
            shape, dtype = self.variables.pop(key)
            shape = name_tables.keras_layer_shape(name, shape)
            self.variables[name] = shape, dtype

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        key = self._keys.get(name, name)
        value = np.asarray(self._try(self._reader.get_tensor, key))
        if key == name:
            return value
        return name_tables.from_keras_layer(name, value)

    def _try(self, call: Callable[[Any], _T], argument: Any) -> _T:
        """Calls TensorFlow; reports its errors as a broken checkpoint."""
        import tensorflow as tf
        from google.protobuf import message

        try:
            return call(argument)
        # TensorFlow raises IndexError for a truncated file, and MemoryError
        # for a damaged size.
        except (
            *(tf.errors.OpError, RuntimeError, IndexError, MemoryError),
            *(UnicodeDecodeError, message.DecodeError),
        ) as error:
            raise ValueError(
                f"{self.origin!r} is broken, or not a checkpoint (TensorFlow: "
                f"{error}). If it was copied, copy it again."
            ) from error


def is_garden_training_state(name: str) -> bool:
    """Returns whether a name is of the Model Garden's optimizer or step."""
    key = name.removeprefix(_GARDEN_SCOPE)
    return key != name and (key == _GLOBAL_STEP or bool(_OPTIMIZER.search(key)))


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
            for path in written_files(aside):
                paths.remove(path)
        if isinstance(error, tf.errors.OpError):
            raise OSError(
                f"Checkpoint {prefix!r} could not be written: {error.message}. "
                "Free disk space, or write elsewhere."
            ) from error
        raise


def written_files(prefix: str) -> list[str]:
    """Lists the files that `write` writes."""
    return [prefix + suffix for suffix in _SUFFIXES]


def _publish(aside: str, prefix: str) -> None:
    for path in written_files(aside):
        writing.sync(path)
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
    steps = {
        prefix: int(match[1])
        for prefix in found
        if (match := _STEP_SUFFIX.search(prefix))
    }
    if len(steps) == len(found):
        return max(steps, key=steps.__getitem__)
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
    prefix = state.model_checkpoint_path
    exists = tf.io.gfile.exists
    return prefix if exists(f"{prefix}.index") or exists(prefix) else None


def files(prefix: str) -> list[str]:
    """Lists the files of a checkpoint, in order; "V1" has one."""
    import tensorflow as tf

    folder, name = os.path.split(prefix)
    found = [
        os.path.join(folder, file)
        for file in sorted(tf.io.gfile.listdir(folder or "."))
        if file == f"{name}.index" or _DATA_SUFFIX.sub("", file) == name
    ]
    return found or [prefix]


def _link(prefix: str, folder: str) -> str:
    """Links the files of a checkpoint into a folder; returns their prefix."""
    linked = os.path.join(folder, "model.ckpt")
    name = os.path.basename(prefix)
    for path in files(prefix):
        ending = os.path.basename(path).removeprefix(name)
        os.symlink(os.path.abspath(path), linked + ending)
    return linked


def _check_shards(prefix: str) -> None:
    """Checks that no data file of an index is missing."""
    import tensorflow as tf

    if not tf.io.gfile.exists(f"{prefix}.index"):
        return
    shards = collections.Counter(
        int(match[1])
        for file in files(prefix)
        if (match := _DATA_SUFFIX.search(file))
    )
    if not any(have == total for total, have in shards.items()):
        raise FileNotFoundError(
            f"Checkpoint {prefix!r} must have all of its files "
            f"{prefix}.data-NNNNN-of-NNNNN; it has "
            + (", ".join(f"{n} of {t}" for t, n in shards.items()) or "none")
            + ". Copy the others too."
        )


def _object_checkpoint(prefix: str, names: Collection[str]) -> str:
    origin = (
        "of the TensorFlow Model Garden, with unknown layer names"
        if any(_GARDEN.search(name) for name in names)
        else "of tf.train.Checkpoint"
    )
    return (
        f"Checkpoint {prefix!r} must use the release's variable names; it is a "
        f"TensorFlow 2 object checkpoint {origin} (it contains "
        f"{_OBJECT_GRAPH}). Convert it with the program that wrote "
        "it: to the release's names, or to a Hugging Face folder."
    )


def _garden_keys(
    names: Mapping[str, str], held: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the keys of variables by name, and the class of the head.

    Args:
        names: the names that layers gave variables, by the checkpoint's key.
        held: the keys of all variables.
    """
    names = {
        key: full for key, full in names.items() if not _OPTIMIZER.search(key)
    }
    has_head_pooler = any(_HEAD_POOLER in names.get(key, "") for key in held)
    architectures: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    for key in sorted(held):
        full = names.get(key, "")
        name = name_tables.translated(full, _GARDEN_NAMES)
        if has_head_pooler and _POOLER in full:
            name = None
        elif name and _WORDS in full and _SPAN.search(_short(key)):
            name = f"cls/squad/{name}"
        elif name and _WORDS in full:
            architectures = (name_tables.TOKEN_CLASSIFICATION,)
        name = name or f"{_GARDEN_SCOPE}{_short(key)}"
        if name in keys:  # As with two encoders.
            raise ValueError(
                f"Expected {name} once; the checkpoint stores it as "
                f"{_short(keys[name])} and as {_short(key)}."
            )
        keys[name] = key
    return keys, architectures


def _full_names(graph: bytes) -> dict[str, str]:
    """Returns the names that layers gave variables, by checkpoint key."""
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    parsed = trackable_object_graph_pb2.TrackableObjectGraph()
    parsed.ParseFromString(graph)
    return {
        attribute.checkpoint_key: attribute.full_name
        for node in parsed.nodes
        for attribute in node.attributes
    }


def _short(key: str) -> str:
    return key.removesuffix(_VALUE)
