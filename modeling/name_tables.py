"""Names of BERT's variables in the original and in Hugging Face.

A row is a module: its name in the original, and its kind of variables. Kernels
are `[in, out]` in the original and `[out, in]` in PyTorch; output layers are
`[K, D]` in both.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

# An array's shape, and NumPy's name of its type.
Spec: TypeAlias = tuple[tuple[int, ...], str]

# The names in the release and in Hugging Face, and whether PyTorch stores the
# variable transposed.
_DENSE = (("kernel", "weight", True), ("bias", "bias", False))
_NORM = (("beta", "bias", False), ("gamma", "weight", False))
_OUTPUT = (("output_weights", "weight", False), ("output_bias", "bias", False))
_EMBEDDINGS = tuple(
    (f"{kind}_embeddings", f"{kind}_embeddings.weight", False)
    for kind in ("word", "token_type", "position")
)

_BEFORE_LAYERS = (
    ("bert/embeddings", _EMBEDDINGS),
    ("bert/embeddings/LayerNorm", _NORM),
)
# Below bert/encoder/layer_{i}.
_IN_LAYER = (
    ("attention/self/query", _DENSE),
    ("attention/self/key", _DENSE),
    ("attention/self/value", _DENSE),
    ("attention/output/dense", _DENSE),
    ("attention/output/LayerNorm", _NORM),
    ("intermediate/dense", _DENSE),
    ("output/dense", _DENSE),
    ("output/LayerNorm", _NORM),
)
_POOLER = ("bert/pooler/dense", _DENSE)
_PREDICTIONS = (
    ("cls/predictions", (("output_bias", "bias", False),)),
    ("cls/predictions/transform/dense", _DENSE),
    ("cls/predictions/transform/LayerNorm", _NORM),
)
_CLASSIFIER = (("", _OUTPUT),)
# The keys are names of classes, here as in Hugging Face. The first whose
# variables are in a checkpoint is the checkpoint's class.
_HEADS = {
    "BertForPreTraining": (
        *_PREDICTIONS,
        ("cls/seq_relationship", _OUTPUT),
    ),
    "BertForQuestionAnswering": (("cls/squad", _OUTPUT),),
    "BertForMultipleChoice": (("cls/multiple_choice", _OUTPUT[:1]),),
    "BertForSequenceClassification": _CLASSIFIER,
    "BertForTokenClassification": _CLASSIFIER,
    # Only a class of Hugging Face, with one of the two heads.
    "BertForMaskedLM": _PREDICTIONS,
    "BertModel": (),
}
# The modules that have another name in Hugging Face; see `_huggingface`.
_HUGGINGFACE_MODULES = {
    "cls/squad": "qa_outputs",
    "cls/multiple_choice": "classifier",
    "": "classifier",
}
ARCHITECTURES = tuple(_HEADS)
SEQUENCE_CLASSIFICATION = "BertForSequenceClassification"
TOKEN_CLASSIFICATION = "BertForTokenClassification"
MULTIPLE_CHOICE = "BertForMultipleChoice"
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
# Patterns of variables on which the outputs of some models do not depend.
POOLER = "bert/pooler/.*"
NEXT_SENTENCE = "cls/seq_relationship/.*"

# The config fields that set the axis lengths, by name pattern; the first match
# counts.
_AXES = (
    (r"/word_embeddings$", ("vocab_size", "hidden_size")),
    (r"/token_type_embeddings$", ("type_vocab_size", "hidden_size")),
    (r"/position_embeddings$", ("max_position_embeddings", "hidden_size")),
    (r"/intermediate/dense/kernel$", ("hidden_size", "intermediate_size")),
    (r"/intermediate/dense/bias$", ("intermediate_size",)),
    (r"layer_\d+/output/dense/kernel$", ("intermediate_size", "hidden_size")),
    (r"^cls/predictions/output_bias$", ("vocab_size",)),
    (r"^output_weights$", ("num_labels", "hidden_size")),
    (r"^output_bias$", ("num_labels",)),
    (r"output_weights$", ("outputs of the head", "hidden_size")),
    (r"output_bias$", ("outputs of the head",)),
    (r"", ("hidden_size", "hidden_size")),
)

# Three digits at most, because names are listed for all layers up to this one.
_LAYER_NUMBER = re.compile(r"(?:^|[/.])layer[_.](\d{1,3})[/.]")


class Variable(NamedTuple):
    """The names of a variable.

    Attributes:
        release: in the release's checkpoints.
        huggingface: in Hugging Face's checkpoints.
        is_transposed: whether Hugging Face's axes are transposed.
    """

    release: str
    huggingface: str
    is_transposed: bool


def num_layers(names: Iterable[str]) -> int:
    """Counts encoder layers by the highest number in names of any form."""
    matches = (_LAYER_NUMBER.search(name) for name in names)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)


def encoder(layers: int) -> tuple[Variable, ...]:
    """Lists the variables of an encoder with `num_layers`, and its pooler."""
    inside = [
        (f"bert/encoder/layer_{i}/{module}", kind)
        for i in range(layers)
        for module, kind in _IN_LAYER
    ]
    return _variables((*_BEFORE_LAYERS, *inside, _POOLER))


def axes_of(name: str) -> tuple[str, ...]:
    """Returns the config fields that set the axis lengths of a matrix.

    Args:
        name: of the variable in the release. The first field is the length of
            a vector.
    """
    return next(fields for pattern, fields in _AXES if re.search(pattern, name))


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
    stored = set(names)
    if WORD_EMBEDDINGS not in stored:
        return []
    classes = [
        name
        for name in _HEADS
        if {variable.release for variable in head(name)} <= stored
    ]
    twins = [SEQUENCE_CLASSIFICATION, TOKEN_CLASSIFICATION]
    if hint == TOKEN_CLASSIFICATION:
        twins.reverse()
    dropped = {twins[1]}
    if "BertForPreTraining" in classes:
        dropped.add("BertForMaskedLM")
    if len(classes) > 1:
        dropped.add("BertModel")
    classes = [name for name in classes if name not in dropped]
    return classes or ["BertModel"]


def _variables(
    modules: Iterable[tuple[str, Iterable[tuple[str, str, bool]]]],
) -> tuple[Variable, ...]:
    return tuple(
        Variable(
            release="/".join(filter(None, (module, name))),
            huggingface=f"{_huggingface(module)}.{theirs}",
            is_transposed=is_transposed,
        )
        for module, kind in modules
        for name, theirs, is_transposed in kind
    )


def _huggingface(module: str) -> str:
    dotted = module.replace("/", ".").replace("layer_", "layer.")
    return _HUGGINGFACE_MODULES.get(module, dotted)
