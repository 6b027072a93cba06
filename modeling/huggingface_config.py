"""Hugging Face's `config.json` and `tokenizer_config.json` for BERT."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CONFIG = "config.json"
TOKENIZER = "tokenizer_config.json"

_MODEL_TYPE = "bert"
# Theirs -> ours. Their "gelu" is the exact form, ours the release's.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_TANH_GELU = "gelu_new"  # The oldest name of that form there.
_EPSILON = 1e-12  # Source: the release.
# Options that change what the network computes, and what they must be.
_FIXED = {
    "layer_norm_eps": _EPSILON,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_FIELDS = (
    *("vocab_size", "hidden_size", "num_hidden_layers"),
    *("num_attention_heads", "intermediate_size"),
    *("max_position_embeddings", "type_vocab_size", "initializer_range"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
)
_PLACEHOLDER = "LABEL_{}"  # Theirs, where nobody named any.
_CLASSIFIER_DROPOUT_PROB = 0.1  # Source: run_classifier.py of the release.
# Ours -> theirs.
_PROBLEM_TYPES = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


def read(folder: str) -> dict[str, Any]:
    """Reads a folder's `config.json`; nothing if there is none.

    Raises:
        ValueError: it is broken, or of another network than BERT's.
    """
    path = os.path.join(folder, CONFIG)
    if not os.path.exists(path):
        return {}
    values = read_json(path)
    check(values, path)
    return values


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        ValueError: the file holds something else.
    """
    with open(path, encoding="utf-8") as file:
        try:
            values = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not JSON in UTF-8 ({error}).") from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{path}: must hold a JSON object; got {type(values).__name__}."
        )
    return values


def check(values: Mapping[str, Any], path: str) -> None:
    """Checks that a config is of a network that this project has.

    Args:
        values: of the config.
        path: of its file, for messages.

    Raises:
        ValueError: it is another one; names which.
    """
    # The first configs had no model_type.
    kind = values.get("model_type", _MODEL_TYPE)
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list) or not all(
        isinstance(name, str) for name in architectures
    ):
        raise ValueError(
            f"{path}: architectures must be a list of names; got "
            f"{architectures!r:.60}."
        )
    classes = ", ".join(architectures) or "no architecture"
    is_bert = "model_type" in values or all(
        name.startswith("Bert") for name in architectures
    )
    if kind != _MODEL_TYPE or not is_bert:
        raise ValueError(
            f"{path}: model_type must be {_MODEL_TYPE!r}; this folder is of "
            f"model_type {kind!r:.60} ({classes:.200})."
        )
    for name, want in _FIXED.items():
        if name in values and values[name] != want:
            raise ValueError(
                f"{path}: {name} must be {want!r}, as in BERT; got "
                f"{values[name]!r:.60}."
            )
    act = values.get("hidden_act", "gelu")
    if not isinstance(act, str) or act not in _ACTIVATIONS:
        raise ValueError(
            f"{path}: hidden_act must be one of {', '.join(_ACTIVATIONS)}; "
            f"got {act!r:.60}."
        )


def remarks(values: Mapping[str, Any]) -> Iterator[str]:
    """Yields what a user should know of how a config is understood."""
    if values.get("hidden_act") == "gelu":
        yield (
            "its config says 'gelu', the exact form; here the tanh form of the "
            "release is computed, at most 5e-4 away, which released models "
            "were trained with"
        )


def is_of_a_model(values: Mapping[str, Any]) -> bool:
    """Tells a model's config from other files of that name."""
    return "model_type" in values or all(name in values for name in _FIELDS)


def to_release(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Picks the fields of a `bert_config.json`.

    Args:
        values: of a `config.json`.
        path: of its file, for messages.

    Raises:
        ValueError: a field is missing.
    """
    absent = [name for name in _FIELDS if name not in values]
    if absent:
        raise ValueError(f"{path} must hold {', '.join(absent)}.")
    act = _ACTIVATIONS[values.get("hidden_act", "gelu")]
    return {name: values[name] for name in _FIELDS} | {"hidden_act": act}


def from_release(
    config: Mapping[str, Any],
    architectures: Sequence[str],
    labels: Mapping[str, Any] | None,
    pad_token_id: int,
) -> dict[str, Any]:
    """Makes a `config.json`.

    Args:
        config: fields of a `bert_config.json`.
        architectures: Hugging Face's classes, that to be made first.
        labels: `problem_type` and `labels` of the output layer, as far as
            they are known.
        pad_token_id: id of [PAD].
    """
    act = config["hidden_act"] or "linear"
    values = {
        "architectures": list(architectures),
        "model_type": _MODEL_TYPE,
        **{name: config[name] for name in _FIELDS},
        "hidden_act": _TANH_GELU if act.lower() == "gelu" else act.lower(),
        "layer_norm_eps": _EPSILON,
        "position_embedding_type": "absolute",
        "classifier_dropout": _CLASSIFIER_DROPOUT_PROB,
        "pad_token_id": pad_token_id,
    }
    names = (labels or {}).get("labels")
    if names:
        values["id2label"] = {str(i): name for i, name in enumerate(names)}
        values["label2id"] = {name: i for i, name in enumerate(names)}
    problem = _PROBLEM_TYPES.get((labels or {}).get("problem_type"))
    if problem and "BertForSequenceClassification" in architectures:
        values["problem_type"] = problem
    return values


def merged(
    theirs: Mapping[str, Any], ours: Mapping[str, Any]
) -> dict[str, Any]:
    """Adds the fields of the `config.json` that a model once came with.

    Args:
        theirs: that config, or nothing.
        ours: of `from_release`; goes before, but for another word for the
            same activation.
    """
    values = {**theirs, **ours}
    act = theirs.get("hidden_act")
    if _ACTIVATIONS.get(act) == _ACTIVATIONS[ours["hidden_act"]]:
        values["hidden_act"] = act
    return values


def label_names(num_labels: int, names: Sequence[str]) -> list[str]:
    """Names the outputs of a classifier, as Hugging Face does without names.

    Args:
        num_labels: of its output layer.
        names: of the labels; others if they are not as many.
    """
    if len(names) == num_labels:
        return list(names)
    return [_PLACEHOLDER.format(i) for i in range(num_labels)]


def labels_of(
    values: Mapping[str, Any], path: str = CONFIG
) -> dict[str, Any] | None:
    """Reads what the output layer of a `config.json` answers.

    Args:
        values: of the config.
        path: of its file, for messages.

    Returns:
        `problem_type` and `labels` as `labels.json` holds them; None where
        the config does not name them.

    Raises:
        ValueError: it does not name outputs 0, 1, 2, ...
    """
    names = values.get("id2label")
    if not names:
        return None
    held = names if isinstance(names, dict) else {}
    numbers = [str(i) for i in range(len(held))]
    if not held or not all(isinstance(held.get(n), str) for n in numbers):
        raise ValueError(
            f"{path}: id2label must name the outputs by number, from 0; got "
            f"{names!r:.60}."
        )
    ordered = [held[number] for number in numbers]
    if ordered == label_names(len(ordered), ()):
        return None
    theirs = {name: ours for ours, name in _PROBLEM_TYPES.items()}
    problem = theirs.get(str(values.get("problem_type")), "single_label")
    is_score = problem == "regression"
    return {"problem_type": problem, "labels": [] if is_score else ordered}


def tokenizer(*, do_lower_case: bool, model_max_length: int) -> dict[str, Any]:
    """Makes a `tokenizer_config.json`."""
    return {
        "do_lower_case": do_lower_case,
        "model_max_length": model_max_length,
        "tokenizer_class": "BertTokenizer",
        "tokenize_chinese_chars": True,
        "strip_accents": None,
        **{f"{n.lower()}_token": f"[{n}]" for n in _SPECIAL_TOKENS},
    }


_SPECIAL_TOKENS = ("CLS", "MASK", "PAD", "SEP", "UNK")
