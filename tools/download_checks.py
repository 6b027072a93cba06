"""Checks of downloaded files, data sets and checkpoints."""

import codecs
import math
import os
import re
from collections.abc import Iterable

from files import json_text
from modeling import config as config_lib
from modeling import costs
from vocab import tokenization

_CHECKPOINT = "bert_model.ckpt"
_SIZES = re.compile(r"L-(\d+)_H-(\d+)_A-(\d+)")
_FLOAT_BYTES = 4
# The start of web pages, after comments; no data set starts like this.
_WEB_PAGE = re.compile(rb"<(!doctype|html|head|meta|script|\?xml|!--)", re.I)
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_HEAD_BYTES = 1 << 16


def missing(folder: str, files: Iterable[str]) -> list[str]:
    """Lists the files that are missing in a folder, or empty."""
    return [
        name
        for name in files
        if not os.path.isfile(path := os.path.join(folder, name))
        or not os.path.getsize(path)
    ]


def check_files(folder: str, files: Iterable[str], origin: str) -> None:
    """Checks that files exist, with content of the expected kind.

    Args:
        folder: their folder.
        files: their names.
        origin: their source, for the message.

    Raises:
        ValueError: one is missing, empty, a web page, or no JSON.
    """
    names = list(files)
    absent = missing(folder, names)
    if absent:
        raise ValueError(
            f"{origin}: must contain {', '.join(names)}; {', '.join(absent)} "
            "missing or empty. It may be another version."
        )
    for name in names:
        check_content(os.path.join(folder, name))


def check_content(path: str) -> None:
    """Checks that a file is not empty, not a web page, and JSON if named so.

    Raises:
        ValueError: the content is of another kind.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8)
    if not head:
        raise ValueError(f"{path}: is empty.")
    if _WEB_PAGE.match(_COMMENT.sub(b"", head).lstrip()):
        raise ValueError(
            f"{path}: is a web page. Does the network require a login?"
        )
    if path.endswith(".json"):
        json_text.read(path)


def check_checkpoint(folder: str, name: str) -> str:
    """Checks that configuration, vocabulary and weights belong together.

    Reads the index of the checkpoint, not the weights, whose bytes the
    archive's CRC covers.

    Args:
        folder: the release's, with `bert_config.json`, `vocab.txt` and
            `bert_model.ckpt`; or Hugging Face's.
        name: the release's, which contains the sizes (`..._L-2_H-128_A-2`).

    Returns:
        A description of the model, in a line.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the parts contradict each other or the name.
    """
    # Imported late: it imports TensorFlow, which data sets do not need.
    from modeling import checkpoints

    prefix = os.path.join(folder, _CHECKPOINT)
    is_release = os.path.exists(f"{prefix}.index")
    prefix = prefix if is_release else folder
    config = config_lib.BertConfig.from_checkpoint(prefix)
    _check_sizes(config, folder, name)
    vocab_file = os.path.join(folder, "vocab.txt")
    num_lines = len(tokenization.load_vocab(vocab_file))
    if num_lines != config.vocab_size:
        raise ValueError(
            f"{vocab_file} must have the vocab_size of bert_config.json, "
            f"{config.vocab_size} tokens; it has {num_lines}."
        )
    shapes = {
        variable: shape
        for variable, (shape, _) in checkpoints.list_variables(prefix).items()
    }
    _check_encoder(config, shapes, prefix)
    if is_release:
        _check_data_size(shapes, prefix, checkpoints.files(prefix))
    return (
        f"{config.num_hidden_layers} layers of {config.hidden_size}, "
        f"{config.vocab_size} word pieces, "
        f"{costs.encoder_parameters(config):,} parameters in the encoder"
    )


def _check_sizes(config: config_lib.BertConfig, folder: str, name: str) -> None:
    match = _SIZES.search(name)
    if not match:
        return
    told = tuple(int(number) for number in match.groups())
    held = (
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
    )
    if told != held:
        raise ValueError(
            f"{folder}: {name} must have layers, width and heads {told}; its "
            f"bert_config.json has {held}."
        )


def _check_encoder(
    config: config_lib.BertConfig,
    shapes: dict[str, tuple[int, ...]],
    prefix: str,
) -> None:
    words = shapes.get("bert/embeddings/word_embeddings")
    expected = (config.vocab_size, config.hidden_size)
    if words != expected:
        raise ValueError(
            f"{prefix}: bert/embeddings/word_embeddings must be {expected}, "
            f"as in bert_config.json; got {words}."
        )
    held = sum(
        math.prod(shape)
        for variable, shape in shapes.items()
        if variable.startswith("bert/")
        and not variable.endswith(("/adam_m", "/adam_v"))
    )
    count = costs.encoder_parameters(config)
    if held != count:
        raise ValueError(
            f"{prefix}: the encoder of bert_config.json has {count:,} "
            f"parameters; the checkpoint has {held:,}."
        )


def _check_data_size(
    shapes: dict[str, tuple[int, ...]], prefix: str, files: Iterable[str]
) -> None:
    held = sum(os.path.getsize(file) for file in files if ".data-" in file)
    least = _FLOAT_BYTES * sum(math.prod(shape) for shape in shapes.values())
    if held < least:
        raise ValueError(
            f"{prefix}: the data files must have {least:,} bytes by their "
            f"index; they have {held:,}. Delete the folder and download again."
        )
