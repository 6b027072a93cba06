"""What lies beside a fine-tuned model, so that it can be used alone.

Beside what `checkpointing` writes: `vocab.txt`, a copy of the vocabulary;
`tokenizer.json`, which says how text was read; `labels.json`, which says what
the model answers.
"""

import dataclasses
import json
import os
from collections.abc import Mapping

import tensorflow as tf

from files import paths, writing
from training import checkpointing

VOCABULARY = "vocab.txt"
LABELS = "labels.json"
_TOKENIZER = "tokenizer.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """What a model is, reads and answers; mappings have values as JSON has.

    Attributes:
        config: its sizes.
        vocab_file: its vocabulary.
        text: how text is read: `vocab_sha256` and `do_lower_case`.
        labels: what its outputs mean: `problem_type` and `labels`.
    """

    config: Mapping[str, object]
    vocab_file: str
    text: Mapping[str, object]
    labels: Mapping[str, object]


def claim(output_dir: str, described: Description) -> None:
    """Marks a folder as that of a model, or refuses if it is another's.

    Args:
        output_dir: the run's folder, made if missing.
        described: the model.

    Raises:
        ValueError: the folder holds a model of other sizes, that reads text
            in another way, or that gives other answers.
    """
    checkpointing.claim(output_dir, described.config)
    claim_text(output_dir, described.vocab_file, described.text)
    if checkpointing.latest(output_dir) and answers_differ(
        output_dir, described.labels
    ):
        raise ValueError(
            f"The model in {output_dir} was trained for other labels "
            f"({LABELS} there) than {dict(described.labels)}. Choose another "
            "--output_dir."
        )
    writing.write_json(os.path.join(output_dir, LABELS), dict(described.labels))


def claim_text(
    output_dir: str, vocab_file: str, text: Mapping[str, object]
) -> None:
    """Marks a folder's model as one that reads text in this way.

    Args:
        output_dir: the run's folder.
        vocab_file: copied there.
        text: how text is read: `vocab_sha256` and `do_lower_case`.

    Raises:
        ValueError: the folder holds a model that reads text in another way.
    """
    if checkpointing.latest(output_dir):
        check_text(output_dir, text)
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
    held = _read_json(os.path.join(folder, _TOKENIZER)) or {}
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


def answers_differ(folder: str, labels: Mapping[str, object]) -> bool:
    """Tells whether the model in a folder answers with other labels.

    A folder that does not say, such as one of the release, may hold any.
    """
    held = _read_json(os.path.join(folder, LABELS))
    return held is not None and held != dict(labels)


def of_checkpoint(path: str) -> str:
    """Returns the folder that a checkpoint, however it is named, lies in."""
    return path if tf.io.gfile.isdir(path) else os.path.dirname(path)


def _read_json(path: str) -> dict | None:
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.loads(file.read())
