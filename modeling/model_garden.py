"""Names of BERT's variables in checkpoints of the TensorFlow Model Garden.

Such a checkpoint is object-based: its keys are paths of attributes, which
depend on the class that was saved. The names that layers gave their variables
do not; the checkpoint's object graph contains them.
"""

import dataclasses
import re
from collections.abc import Mapping

from modeling import name_tables
from modeling.annotations import Spec

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

_FOREIGN = "model_garden/"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_OPTIMIZER = re.compile(r"^optimizer/|/\.OPTIMIZER_SLOT/")
_LAYER, _OURS = r"transformer/layer_(\d+)", r"bert/encoder/layer_\1"
# Source: the names of tf-models-official 2.20.
_NAMES = (
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
_QUERY = "/attention/self/query/kernel"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variables:
    """The variables of a checkpoint.

    Attributes:
        keys: the checkpoint's keys by the release's names.
        architectures: Hugging Face's name of the class, if known.
        num_attention_heads: of the encoder.
    """

    keys: Mapping[str, str]
    architectures: tuple[str, ...]
    num_attention_heads: int


def variables(graph: bytes, held: Mapping[str, Spec]) -> Variables | None:
    """Finds the variables of a checkpoint by the release's names.

    Args:
        graph: the object graph of the checkpoint.
        held: shape and type by the checkpoint's own keys.

    Returns:
        None if the checkpoint has no BERT encoder with known names.

    Raises:
        ValueError: two variables have the same name, as with two encoders.
    """
    names = {
        key: full
        for key, full in _full_names(graph).items()
        if key in held and not _OPTIMIZER.search(key)
    }
    has_head_pooler = any(_HEAD_POOLER in full for full in names.values())
    architectures: tuple[str, ...] = ()
    keys: dict[str, str] = {}
    for key in sorted(held):
        full = names.get(key, "")
        name = name_tables.translated(full, _NAMES)
        if has_head_pooler and _POOLER in full:
            name = None
        elif name and _WORDS in full and _SPAN.search(_short(key)):
            name = f"cls/squad/{name}"
        elif name and _WORDS in full:
            architectures = (name_tables.TOKEN_CLASSIFICATION,)
        name = name or f"{_FOREIGN}{_short(key)}"
        if name in keys:
            raise ValueError(
                f"Expected {name} once; the checkpoint stores it as "
                f"{_short(keys[name])} and as {_short(key)}."
            )
        keys[name] = key
    query = keys.get(f"bert/encoder/layer_0{_QUERY}")
    if query is None or name_tables.WORD_EMBEDDINGS not in keys:
        return None
    return Variables(
        keys=keys,
        architectures=architectures,
        num_attention_heads=held[query][0][1],
    )


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
