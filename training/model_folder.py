"""What lies beside a fine-tuned model, so that it can be used alone.

Beside what `checkpointing` writes: `vocab.txt`, a copy of the vocabulary, and
`tokenizer.json`, which says how text was read.
"""

import json
import os
from collections.abc import Mapping

import tensorflow as tf

from files import paths, writing
from training import checkpointing

VOCABULARY = "vocab.txt"
_TOKENIZER = "tokenizer.json"


def claim(
    output_dir: str,
    config: Mapping[str, object],
    vocab_file: str,
    text: Mapping[str, object],
    init_checkpoint: str | None,
) -> None:
    """Marks a folder as one of a model that reads text in one way.

    Args:
        output_dir: the run's folder, made if missing.
        config: the sizes of the model.
        vocab_file: copied there.
        text: how text is read: `vocab_sha256` and `do_lower_case`.
        init_checkpoint: what the model begins as, or None.

    Raises:
        ValueError: the folder holds another model, or one that reads text in
            another way, or so does that of `init_checkpoint`.
    """
    checkpointing.claim(output_dir, config)
    if checkpointing.latest(output_dir):
        check_text(output_dir, text)
    elif init_checkpoint:
        check_text(of_checkpoint(init_checkpoint), text)
    writing.write_json(os.path.join(output_dir, _TOKENIZER), dict(text))
    target = os.path.join(output_dir, VOCABULARY)
    if os.path.abspath(vocab_file) != os.path.abspath(target):
        with writing.whole_file(target, "wb") as file:
            for chunk in paths.chunks_of(vocab_file):
                file.write(chunk)


def check_text(folder: str, text: Mapping[str, object]) -> None:
    """Compares how text is read with what lies beside a model, if anything.

    Raises:
        ValueError: they differ; names in what.
    """
    held = read_json(os.path.join(folder, _TOKENIZER)) or {}
    differing = [
        f"{name} was {held[name]!r} and is {text[name]!r}"
        for name in text
        if name in held and held[name] != text[name]
    ]
    if differing:
        raise ValueError(
            f"The model in {folder} was trained on text read in another way: "
            f"{'; '.join(differing)}. Pass the vocabulary ({VOCABULARY} there) "
            "and the casing that belong to it."
        )


def of_checkpoint(path: str) -> str:
    """Returns the folder that a checkpoint, however it is named, lies in."""
    return path if tf.io.gfile.isdir(path) else os.path.dirname(path)


def read_json(path: str) -> dict | None:
    """Reads a JSON object; None if there is no such file."""
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())
