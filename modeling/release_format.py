"""TensorFlow's name-based checkpoints, the release's own format.

A checkpoint is `PREFIX.index` and `PREFIX.data-NNNNN-of-NNNNN` ("V2"), or one
file of the older "V1". The object-based checkpoints of the TensorFlow Model
Garden are read too. Their keys are paths of attributes, which depend on the
class that was saved. The names that layers gave their variables do not; the
checkpoint's object graph contains them.
"""

import math
import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from files import messages, paths, writing
from modeling import name_tables
from modeling.name_tables import Spec

if TYPE_CHECKING:
    from modeling.compilation import Tensor

# Of the files written, in the order of renaming.
_SUFFIXES = (".data-00000-of-00001", ".index")
_QUERY = "bert/encoder/layer_0/attention/self/query/kernel"

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIMIZER = re.compile(r"^optimizer/|/\.OPTIMIZER_SLOT/")
_LAYER, _OURS = r"transformer/layer_(\d+)", r"bert/encoder/layer_\1"
# Patterns of the ends of the names of layers' variables, and the release's
# names; the first match counts. Source: tf-models-official 2.20.
_GARDEN_NAMES = (
    ("word_embeddings/embeddings", "bert/embeddings/word_embeddings"),
    ("position_embedding/embeddings", "bert/embeddings/position_embeddings"),
    ("type_embeddings/embeddings", "bert/embeddings/token_type_embeddings"),
    (r"embeddings/layer_norm/(\w+)", r"bert/embeddings/LayerNorm/\1"),
    (
        rf"{_LAYER}/self_attention/(query|key|value)/(\w+)",
        rf"{_OURS}/attention/self/\2/\3",
    ),
    (
        rf"{_LAYER}/self_attention/attention_output/(\w+)",
        rf"{_OURS}/attention/output/dense/\2",
    ),
    (
        rf"{_LAYER}/self_attention_layer_norm/(\w+)",
        rf"{_OURS}/attention/output/LayerNorm/\2",
    ),
    (rf"{_LAYER}/intermediate/(\w+)", rf"{_OURS}/intermediate/dense/\2"),
    (rf"{_LAYER}/output/(\w+)", rf"{_OURS}/output/dense/\2"),
    (rf"{_LAYER}/output_layer_norm/(\w+)", rf"{_OURS}/output/LayerNorm/\2"),
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
        if held.pop(_OBJECT_GRAPH, None):
            held = self._renamed(held)
        self.variables = dict(sorted(held.items()))

    def _renamed(self, held: Mapping[str, Spec]) -> dict[str, Spec]:
        with messages.broken(self.origin, "checkpoint"):
            self._keys, self.architectures = _garden_keys(
                self._reader.get_tensor(_OBJECT_GRAPH), held
            )
        self.kind = "Model Garden"
        if query := self._keys.get(_QUERY):
            self.num_attention_heads = held[query][0][1]  # [D, N, H]
        return {
            name: (_release_shape(name, held[key][0]), held[key][1])
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


# --------------------------------------------------------------- Model Garden


def _garden_keys(
    graph: bytes, held: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns the keys by release name, and the class of the head if known.

    The optimizer's state is left out. Variables without a name in the release
    are called as their keys.
    """
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    parsed = trackable_object_graph_pb2.TrackableObjectGraph()
    parsed.ParseFromString(graph)
    # The names that layers gave variables, by checkpoint key.
    full_names = {
        attribute.checkpoint_key: attribute.full_name
        for node in parsed.nodes
        for attribute in node.attributes
    }
    has_head_pooler = any(_HEAD_POOLER in name for name in full_names.values())
    architectures: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    for key in sorted(held):
        if _OPTIMIZER.search(key):
            continue
        full, short = full_names.get(key, ""), key.removesuffix(_VALUE)
        name = _release_name(full)
        if has_head_pooler and _POOLER in full:
            name = None
        elif name and _WORDS in full and _SPAN.search(short):
            name = f"cls/squad/{name}"
        elif name and _WORDS in full:
            architectures = (name_tables.TOKEN_CLASSIFICATION,)
        name = name or short
        if name in keys:  # As with two encoders.
            raise ValueError(
                f"it stores {name} twice, as {keys[name]} and as {key}"
            )
        keys[name] = key
    if name_tables.WORD_EMBEDDINGS not in keys:
        raise ValueError(
            "it is an object checkpoint (tf.train.Checkpoint), but not of a "
            "BERT of the TensorFlow Model Garden"
        )
    return keys, architectures


def _release_name(full_name: str) -> str | None:
    for pattern, release in _GARDEN_NAMES:
        match = re.search(rf"(?:^|/){pattern}$", full_name)
        if match:
            return match.expand(release)
    return None


def _release_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the release's shape of a variable of a standard Keras layer.

    `keras.layers.MultiHeadAttention` splits the hidden size, `[N, H]`, and the
    kernel of an output layer is `[D, K]`.
    """
    if not name.startswith(("bert/", "cls/", "output_")):
        return shape
    if name.endswith("output_weights"):
        return shape[::-1]
    if len(shape) == 3 and "/attention/self/" in name:
        return shape[0], math.prod(shape[1:])
    if len(shape) == 3:
        return math.prod(shape[:2]), shape[2]
    return (math.prod(shape),) if name.endswith("/bias") else shape


# -------------------------------------------------------------------- Writing


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
