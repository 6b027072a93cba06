"""Names of BERT's variables in the release, in Hugging Face and in Keras.

A row is a module: its three names and its kind of variables. `{i}` is the
number of an encoder layer and `{stack}` its name in Keras. Kernels are
`[in, out]` in the release and `[out, in]` in PyTorch; output layers are
`[K, D]` in both.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from modeling import config as config_lib

# The names in the release and in Hugging Face, the number in Keras, and whether
# PyTorch stores the variable transposed.
_DENSE = (("kernel", "weight", 0, True), ("bias", "bias", 1, False))
_NORM = (("beta", "bias", 0, False), ("gamma", "weight", 1, False))
_OUTPUT = (
    ("output_weights", "weight", 0, False),
    ("output_bias", "bias", 1, False),
)
_EMBEDDINGS = tuple(
    (f"{kind}_embeddings", f"{kind}_embeddings.weight", number, False)
    for number, kind in enumerate(("word", "token_type", "position"))
)

_BEFORE_LAYERS = (
    ("bert/embeddings", "bert.embeddings", "bert/embeddings", _EMBEDDINGS),
    (
        "bert/embeddings/LayerNorm",
        "bert.embeddings.LayerNorm",
        "bert/embeddings/norm",
        _NORM,
    ),
)
# Below bert/encoder/layer_{i}, bert.encoder.layer.{i}, bert/encoder/stack/...
_IN_LAYER = (
    *(
        (
            f"attention/self/{name}",
            f"attention.self.{name}",
            f"attention/self_attention/{name}",
            _DENSE,
        )
        for name in ("query", "key", "value")
    ),
    (
        "attention/output/dense",
        "attention.output.dense",
        "attention/block_output/dense",
        _DENSE,
    ),
    (
        "attention/output/LayerNorm",
        "attention.output.LayerNorm",
        "attention/block_output/norm",
        _NORM,
    ),
    (
        "intermediate/dense",
        "intermediate.dense",
        "intermediate/dense",
        _DENSE,
    ),
    ("output/dense", "output.dense", "block_output/dense", _DENSE),
    ("output/LayerNorm", "output.LayerNorm", "block_output/norm", _NORM),
)
_POOLER = (
    "bert/pooler/dense",
    "bert.pooler.dense",
    "bert/layers/transform/dense",
    _DENSE,
)
_PREDICTIONS = (
    (
        "cls/predictions",
        "cls.predictions",
        "cls/children/masked_language_model",
        (("output_bias", "bias", 0, False),),
    ),
    (
        "cls/predictions/transform/dense",
        "cls.predictions.transform.dense",
        "cls/children/masked_language_model/transform/dense",
        _DENSE,
    ),
    (
        "cls/predictions/transform/LayerNorm",
        "cls.predictions.transform.LayerNorm",
        "cls/children/masked_language_model/transform/norm",
        _NORM,
    ),
)
_CLASSIFIER = (("", "classifier", "", _OUTPUT),)
# By class name, which is the same in Hugging Face. The first whose variables
# are in a checkpoint is the checkpoint's class.
_HEADS = {
    "BertForPreTraining": (
        *_PREDICTIONS,
        (
            "cls/seq_relationship",
            "cls.seq_relationship",
            "cls/children/output_layer",
            _OUTPUT,
        ),
    ),
    "BertForQuestionAnswering": (
        ("cls/squad", "qa_outputs", "cls/children/output_layer", _OUTPUT),
    ),
    "BertForMultipleChoice": (
        (
            "cls/multiple_choice",
            "classifier",
            "cls/children/choice_score",
            _OUTPUT[:1],
        ),
    ),
    "BertForSequenceClassification": _CLASSIFIER,
    "BertForTokenClassification": _CLASSIFIER,
    # Only a class of Hugging Face, with one of the two heads.
    "BertForMaskedLM": _PREDICTIONS,
    "BertModel": (),
}
ARCHITECTURES = tuple(_HEADS)
SEQUENCE_CLASSIFICATION = "BertForSequenceClassification"
TOKEN_CLASSIFICATION = "BertForTokenClassification"
MULTIPLE_CHOICE = "BertForMultipleChoice"
# Hugging Face's classes without a pooler.
WITHOUT_POOLER = (
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    TOKEN_CLASSIFICATION,
)
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"

# At most three digits, because names are listed for all layers up to this one.
_LAYER_NUMBER = re.compile(r"(?:^|[/.])layer[_.](\d{1,3})[/.]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variable:
    """The three names of a variable.

    Attributes:
        release: in the release's checkpoints.
        huggingface: in Hugging Face's checkpoints.
        keras: path in a `.weights.h5` of a model with an encoder.
        is_transposed: whether Hugging Face's axes are transposed.
    """

    release: str
    huggingface: str
    keras: str
    is_transposed: bool


def num_layers(names: Iterable[str]) -> int:
    """Counts encoder layers by the highest number in names of any form."""
    found = (_LAYER_NUMBER.search(name) for name in names)
    return 1 + max((int(match[1]) for match in found if match), default=-1)


def encoder(layers: int) -> tuple[Variable, ...]:
    """Lists the variables of an encoder with `num_layers`, and its pooler."""
    inside = []
    for i in range(layers):
        stack = "transformer_layer" + (f"_{i}" if i else "")
        inside += [
            (
                f"bert/encoder/layer_{i}/{release}",
                f"bert.encoder.layer.{i}.{huggingface}",
                f"bert/encoder/stack/{stack}/{keras}",
                kind,
            )
            for release, huggingface, keras, kind in _IN_LAYER
        ]
    return _variables((*_BEFORE_LAYERS, *inside, _POOLER))


def encoder_shapes(
    config: "config_lib.BertConfig",
) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of an encoder's variables, by release name."""
    size, inside = config.hidden_size, config.intermediate_size
    lengths = {
        "word": config.vocab_size,
        "token_type": config.type_vocab_size,
        "position": config.max_position_embeddings,
    }
    shapes = {}
    for variable in encoder(config.num_hidden_layers):
        module, _, name = variable.release.rpartition("/")
        is_middle = module.endswith("intermediate/dense")
        if name == "kernel" and is_middle:
            shape: tuple[int, ...] = (size, inside)
        elif name == "kernel" and re.search(r"\d/output/dense$", module):
            shape = (inside, size)
        elif name == "kernel":
            shape = (size, size)
        elif name.endswith("_embeddings"):
            shape = (lengths[name.removesuffix("_embeddings")], size)
        else:
            shape = (inside if is_middle else size,)
        shapes[variable.release] = shape
    return shapes


def head(architecture: str) -> tuple[Variable, ...]:
    """Lists the variables of one of `ARCHITECTURES` besides its encoder."""
    return _variables(_HEADS[architecture])


def architectures(names: Iterable[str], hint: str | None = None) -> list[str]:
    """Lists the models whose variables are all in a checkpoint.

    Args:
        names: the checkpoint's, in the release's form.
        hint: the architecture of its output layer, if known: classifiers of
            sentences and of words have the same variable names.

    Returns:
        The members of `ARCHITECTURES` found, the checkpoint's main use first;
        `BertModel` alone if there is no head, nothing without an encoder.
    """
    held = set(names)
    if WORD_EMBEDDINGS not in held:
        return []
    found = [
        name
        for name in _HEADS
        if {variable.release for variable in head(name)} <= held
    ]
    twins = [SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION]
    if hint == TOKEN_CLASSIFICATION:
        twins.reverse()
    dropped = {twins[1]}
    if "BertForPreTraining" in found:
        dropped.add("BertForMaskedLM")
    if len(found) > 1:
        dropped.add("BertModel")
    found = [name for name in found if name not in dropped]
    return found or ["BertModel"]


def translated(name: str, table: Sequence[tuple[str, str]]) -> str | None:
    """Returns the release's name of another program's variable.

    Args:
        name: in that program.
        table: patterns of the ends of such names, and their replacements; the
            first match counts.

    Returns:
        None if no pattern matches.
    """
    for pattern, release in table:
        match = re.search(rf"(?:^|/){pattern}$", name)
        if match:
            return match.expand(release)
    return None


def keras_layer_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
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


def from_keras_layer(name: str, value: np.ndarray) -> np.ndarray:
    """Returns a value of a standard Keras layer in the release's shape."""
    if name.endswith("output_weights"):
        return value.T
    return value.reshape(keras_layer_shape(name, value.shape))


def _variables(modules) -> tuple[Variable, ...]:
    return tuple(
        Variable(
            release="/".join(filter(None, (release, name))),
            huggingface=f"{huggingface}.{theirs}",
            keras="/".join(filter(None, (keras, "vars", str(number)))),
            is_transposed=is_transposed,
        )
        for release, huggingface, keras, kind in modules
        for name, theirs, number, is_transposed in kind
    )
