"""The configuration that lies beside a checkpoint."""

import os

from files import json_text
from modeling import config as config_lib
from modeling import huggingface_config

CONFIG = "bert_config.json"


def read(path: str) -> config_lib.BertConfig:
    """Reads the configuration that belongs to a checkpoint.

    Args:
        path: anything `checkpoints.resolve` takes, or a folder with a
            configuration alone.

    Raises:
        FileNotFoundError: there is none beside it.
        ValueError: it is broken, or not of BERT.
    """
    config = find(path)
    if config is None:
        raise FileNotFoundError(
            f"There must be a {CONFIG}, or Hugging Face's "
            f"{huggingface_config.CONFIG}, beside {path!r}."
        )
    return config


def find(path: str) -> config_lib.BertConfig | None:
    """Reads the configuration beside a checkpoint, if there is one.

    Raises:
        ValueError: as `read`.
    """
    import tensorflow as tf

    folder = folder_of(path)
    ours = os.path.join(folder, CONFIG)
    if tf.io.gfile.exists(ours):
        return config_lib.BertConfig.from_json_file(ours)
    theirs = os.path.join(folder, huggingface_config.CONFIG)
    if not os.path.exists(theirs):
        return None
    values = json_text.read_object(theirs)
    if not huggingface_config.is_of_a_model(values):
        return None
    huggingface_config.check(values, theirs)
    return config_lib.BertConfig.from_dict(
        huggingface_config.to_release(values, theirs), origin=theirs
    )


def folder_of(path: str) -> str:
    """Returns the folder that a checkpoint, however it is named, lies in."""
    import tensorflow as tf

    return path if tf.io.gfile.isdir(path) else os.path.dirname(path)


def check(config: config_lib.BertConfig, path: str) -> tuple[str, ...]:
    """Compares a model with the configuration beside its checkpoint.

    Shapes of variables are compared where they are loaded; this is for what
    they do not show.

    Args:
        config: of the model.
        path: of the checkpoint.

    Returns:
        What else differs, in words.

    Raises:
        ValueError: the number of attention heads differs: the same weights
            would compute something else.
    """
    held = find(path)
    if held is None:
        return ()
    where = f"the configuration beside {path}"
    if held.num_attention_heads != config.num_attention_heads:
        raise ValueError(
            f"num_attention_heads must be what the checkpoint was trained "
            f"with; it is {config.num_attention_heads} in the model and "
            f"{held.num_attention_heads} in {where}. Pass that configuration."
        )
    acts = [config_lib.activation_name(c.hidden_act) for c in (config, held)]
    if acts[0] != acts[1]:
        return (f"hidden_act is {acts[0]} here and {acts[1]} in {where}",)
    return ()
