"""The `config.json` of keras-hub presets."""

import os
from collections.abc import Mapping
from typing import Any

from files import json_text, messages, paths

CONFIG = "config.json"
VOCABULARY = "assets/tokenizer/vocabulary.txt"

# Theirs -> ours.
_FIELDS = {
    "vocabulary_size": "vocab_size",
    "hidden_dim": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}


def is_preset(folder: str) -> bool:
    """Returns whether a path is a local preset of any model."""
    path = os.path.join(folder, CONFIG)
    if paths.is_remote(folder) or not os.path.exists(path):
        return False
    try:
        return is_config(json_text.read_object(path))
    except ValueError:  # Broken; reported where it is read.
        return False


def is_config(values: Mapping[str, Any]) -> bool:
    """Returns whether keras-hub, or keras-nlp, wrote a `config.json`."""
    registered = str(values.get("registered_name"))
    return registered.startswith(("keras_hub>", "keras_nlp>"))


def to_release(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Returns the fields of a `bert_config.json`.

    Args:
        values: a parsed `config.json` of keras-hub.
        path: its file, for messages.

    Raises:
        ValueError: the model is not BERT, or a field is missing.
    """
    name, sizes = values.get("class_name"), values.get("config")
    if name != "BertBackbone":
        raise ValueError(
            f"{path}: class_name must be 'BertBackbone'; got "
            f"{messages.short(name)}."
        )
    needed = [*_FIELDS, "dropout"]
    if not isinstance(sizes, dict) or not sizes.keys() >= {*needed}:
        raise ValueError(
            f"{path}: config must contain {', '.join(needed)}; got "
            f"{messages.short(sizes)}."
        )
    return {
        **{ours: sizes[theirs] for theirs, ours in _FIELDS.items()},
        "hidden_act": "gelu",  # keras-hub uses the tanh form too.
        "hidden_dropout_prob": sizes["dropout"],
        "attention_probs_dropout_prob": sizes["dropout"],
        "initializer_range": 0.02,  # A constant in keras-hub.
    }
