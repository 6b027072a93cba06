"""Names of the object-based checkpoints of the TensorFlow Model Garden.

Their keys are paths of attributes, which depend on the class that was saved.
The names that layers gave their variables do not; the checkpoint's object graph
contains them.
"""

import math
import re
from collections.abc import Collection

from modeling import name_tables

KIND = "Model Garden"
# The key of the object graph.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# The kernel whose shape shows the number of attention heads.
QUERY = "bert/encoder/layer_0/attention/self/query/kernel"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIMIZER = re.compile(r"^optimizer/|/\.OPTIMIZER_SLOT/")
_LAYER, _OURS = r"transformer/layer_(\d+)", r"bert/encoder/layer_\1"
# Patterns of the ends of the names of layers' variables, and the release's
# names; the first match counts. Source: tf-models-official 2.20.
_NAMES = (
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


def keys_by_name(
    graph: bytes, variables: Collection[str]
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
    for key in sorted(variables):
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
        if name in keys:  # The model has two encoders.
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
    for pattern, release in _NAMES:
        match = re.search(rf"(?:^|/){pattern}$", full_name)
        if match:
            return match.expand(release)
    return None


def release_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
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
