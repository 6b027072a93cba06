"""keras-hub's BERT presets, read under the release's names.

A preset is a folder with `config.json` and `model.weights.h5`, the encoder. A
task's preset also has `task.json` and `task.weights.h5`, the head.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from files import json_text, messages, paths
from modeling import hdf5, name_tables
from modeling.name_tables import Spec

if TYPE_CHECKING:
    import h5py
    import numpy as np

FILES = ("model.weights.h5", "task.weights.h5")

_TASK = "task.json"
_FOREIGN = "keras/"
_OPTIMIZER = "optimizer/"
# The group of layers in files of Keras before version 3.
_OLD_LAYERS = "_layer_checkpoint_dependencies/"
_LAYER, _OURS = r"transformer_encoder_(\d+)", r"bert/encoder/layer_\1"
# Further variables are the scales of quantized ones.
_VARIABLE = r"vars/([01])"
_ENCODER = (
    ("reversible_embedding/vars/0", "bert/embeddings/word_embeddings"),
    ("position_embedding/vars/0", "bert/embeddings/position_embeddings"),
    ("embedding/vars/0", "bert/embeddings/token_type_embeddings"),
    (rf"layer_normalization/{_VARIABLE}", r"bert/embeddings/LayerNorm/\1"),
    (
        rf"{_LAYER}/_self_attention_layer/(query|key|value)_dense/{_VARIABLE}",
        rf"{_OURS}/attention/self/\2/\3",
    ),
    *(
        (rf"{_LAYER}/{theirs}/{_VARIABLE}", rf"{_OURS}/{ours}/\2")
        for theirs, ours in (
            ("_self_attention_layer/output_dense", "attention/output/dense"),
            ("_self_attention_layer_norm", "attention/output/LayerNorm"),
            ("_feedforward_intermediate_dense", "intermediate/dense"),
            ("_feedforward_output_dense", "output/dense"),
            ("_feedforward_layer_norm", "output/LayerNorm"),
        )
    ),
    (rf"dense/{_VARIABLE}", r"bert/pooler/dense/\1"),
)
# The task classes. The masked LM head is not among them: it uses the exact
# GELU, and 1e-5 as epsilon.
_CLASSIFIER = (
    ("dense/vars/0", "output_weights"),
    ("dense/vars/1", "output_bias"),
)
_HEADS = {"BertTextClassifier": _CLASSIFIER, "BertClassifier": _CLASSIFIER}
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


class Reader:
    """Reads a preset under the release's names; see `checkpoints.Source`.

    Args:
        folder: a local preset.
        opened: closes its files.

    Raises:
        ValueError: the preset is not of BERT, or is broken.
    """

    kind = "keras-hub"
    num_attention_heads = None

    def __init__(self, folder: str, opened: contextlib.ExitStack):
        self.origin = folder
        path = os.path.join(folder, CONFIG)
        to_release(json_text.read_object(path), path)
        self._arrays: dict[str, h5py.Dataset] = {}
        task = None
        encoder, *heads = files(folder)
        self._add(encoder, _ENCODER, opened)
        for path in heads:
            values = json_text.read_object(os.path.join(folder, _TASK))
            task = values.get("class_name")
            self._add(path, _HEADS.get(str(task), ()), opened)
        self.variables: dict[str, Spec] = {
            name: (
                name_tables.keras_layer_shape(name, array.shape),
                hdf5.type_of(array).name,
            )
            for name, array in sorted(self._arrays.items())
        }
        is_classifier = str(task) in _HEADS
        self.architectures = (
            (name_tables.SEQUENCE_CLASSIFICATION,) if is_classifier else ()
        )
        self.notes: tuple[str, ...] = (
            (f"the head of {messages.short(task)} is not supported",)
            if task and not is_classifier
            else ()
        )

    def _add(
        self,
        path: str,
        table: tuple[tuple[str, str], ...],
        opened: contextlib.ExitStack,
    ) -> None:
        file = hdf5.open_file(path, opened)
        with hdf5.explain_errors(path):
            for place, array in hdf5.find_arrays(file).items():
                if not place.startswith(_OPTIMIZER):
                    self._arrays[_release_name(place, table)] = array

    def read(self, name: str) -> "np.ndarray":
        """Reads a variable by the release's name."""
        with hdf5.explain_errors(self.origin):
            value = hdf5.read(self._arrays[name])
        return name_tables.from_keras_layer(name, value)


def _release_name(place: str, table: tuple[tuple[str, str], ...]) -> str:
    path = place.replace(_OLD_LAYERS, "layers/")
    # Keras numbers the layers of a class from the second on.
    path = path.replace("/transformer_encoder/", "/transformer_encoder_0/")
    name = name_tables.translated(path.removeprefix("layers/"), table)
    if name is None:
        return f"{_FOREIGN}{place}"
    kinds = ("gamma", "beta") if "/LayerNorm/" in name else ("kernel", "bias")
    return re.sub(r"/(\d)$", lambda match: f"/{kinds[int(match[1])]}", name)


def files(folder: str) -> list[str]:
    """Lists the weight files of a preset."""
    found = (os.path.join(folder, name) for name in FILES)
    return [path for path in found if os.path.exists(path)]


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
