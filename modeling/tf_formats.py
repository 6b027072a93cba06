"""Checkpoints of other TensorFlow programs: Model Garden and `tf_model.h5`.

The TensorFlow Model Garden writes object-based files: their keys are paths of
attributes, which depend on the class that was saved. The names that layers
gave their variables do not; the checkpoint's object graph contains them. A
`tf_model.h5` is the HDF5 file of earlier Hugging Face versions.
"""

import contextlib
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from files import messages
from modeling import name_tables
from modeling.name_tables import Spec

if TYPE_CHECKING:
    import h5py

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
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

# The path of a weight in a tf_model.h5: a group, the model's class and other
# parts precede the start of PyTorch's name.
_H5_PATH = re.compile(
    r"(?:.*/)?((?:embeddings|encoder|pooler|predictions|seq_relationship"
    r"|classifier|qa_outputs)/(?:.*/)?)(\w+):0"
)
_H5_NAMES = {
    "kernel": "weight",
    "embeddings": "weight",
    "gamma": "weight",
    "beta": "bias",
}
_MAX_COMPRESSION = 1100  # Source: zlib.net, "maximum compression factor".


# --------------------------------------------------------------- Model Garden


def garden_keys(
    graph: bytes, held: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Names the variables of a Model Garden checkpoint as the release does.

    Args:
        graph: the checkpoint's object graph.
        held: the keys of all variables.

    Returns:
        Keys by name, without the optimizer's state, and the class of the head
        if it is known. Variables without a name in the release are called as
        their keys.

    Raises:
        ValueError: the checkpoint has no encoder of the Model Garden, or two.
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


def release_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the release's shape of a variable of a standard Keras layer.

    `keras.layers.MultiHeadAttention` splits the hidden size, `[N, H]`, and the
    kernel of an output layer is `[D, K]`.

    Args:
        name: in the release; variables with other names keep their shape.
        shape: in the Keras layer.
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


# ---------------------------------------------------------------- tf_model.h5


def open_h5(
    path: str, files: contextlib.ExitStack
) -> tuple[Mapping[str, Spec], Callable[[str], np.ndarray]]:
    """Opens a `tf_model.h5`, in which kernels are `[in, out]`.

    Embeddings tied to a head are stored a second time with the head.

    Returns:
        Shapes and types by PyTorch's names, and the function that reads one.
    """
    import h5py

    def read(name: str) -> np.ndarray:
        with messages.broken(path, "HDF5"):
            value = np.asarray(arrays[name][()])
        return value.T if name in kernels else value

    arrays: dict[str, h5py.Dataset] = {}
    specs: dict[str, Spec] = {}
    kernels = set()
    with messages.broken(path, "HDF5"):
        file = files.enter_context(h5py.File(path, "r"))
        for place, array in sorted(_arrays_of(file).items(), reverse=True):
            name, shape = _pytorch_name(place), array.shape
            if place.endswith("/kernel:0"):
                kernels.add(name)
                shape = shape[::-1]
            arrays[name], specs[name] = array, (shape, array.dtype.name)
    return specs, read


def _arrays_of(file: "h5py.File") -> "dict[str, h5py.Dataset]":
    """Returns the arrays that a file itself contains, by path.

    A file may name arrays in other files, which may be private, and declare
    arrays that are far larger than the stored data.
    """
    import h5py

    found = {}

    def visit(place: str, member: object) -> None:  # Follows hard links only.
        if not isinstance(member, h5py.Dataset):
            return
        if member.is_virtual or member.external:
            raise OSError(f"{place} is stored in another file")
        if member.dtype.kind not in "fiub":
            raise OSError(f"{place} must be numeric; got {member.dtype}")
        stored = member.id.get_storage_size()
        if member.nbytes > stored * _MAX_COMPRESSION:
            raise OSError(
                f"{place} declares {member.nbytes} bytes; {stored} are stored"
            )
        found[place] = member

    file.visititems(visit)
    return found


def _pytorch_name(place: str) -> str:
    match = _H5_PATH.fullmatch(place)
    if not match:
        return place
    module, name = match[1].replace("layer_._", "layer/"), match[2]
    if module.startswith(("predictions/", "seq_relationship/")):
        module = f"cls/{module}"
    return module.replace("/", ".") + _H5_NAMES.get(name, name)
