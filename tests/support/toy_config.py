"""A configuration of a network small enough for tests."""

import pathlib
from typing import Any

from modeling import config as config_lib
from tests.support import toy_files

# With dropout off, runs that share out their batches in other ways agree.
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def sizes(**changes: Any) -> dict[str, Any]:
    """Returns the fields of a `bert_config.json`; every size is another.

    Args:
        **changes: fields with other values.
    """
    return {
        "vocab_size": 31,
        "hidden_size": 12,
        "num_hidden_layers": 1,
        "num_attention_heads": 3,
        "intermediate_size": 17,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        **changes,
    }


def config(**changes: Any) -> config_lib.BertConfig:
    """Returns the configuration of these sizes."""
    return config_lib.BertConfig.from_dict(sizes(**changes))


def write(path: pathlib.Path, **changes: Any) -> str:
    """Writes the fields to a file; returns its path."""
    toy_files.write_json(path, sizes(**changes))
    return str(path)
