"""What lies beside a model, so that it can be used alone.

Beside what `checkpointing` writes: `vocab.txt`, a copy of the vocabulary;
`tokenizer.json`, which says how text was read; `labels.json`, which says what
the model answers. The folders of the release and of Hugging Face are understood
too, as far as they say.
"""

import dataclasses
import json
import os
from collections.abc import Mapping

import tensorflow as tf

from files import json_text, paths, writing
from modeling import config_beside, huggingface_config
from training import checkpointing, vocabulary_checks

VOCABULARY = "vocab.txt"
LABELS = "labels.json"
TOKENIZER = "tokenizer.json"


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
    writing.write_json(os.path.join(output_dir, TOKENIZER), dict(text))
    target = os.path.join(output_dir, VOCABULARY)
    if os.path.abspath(vocab_file) != os.path.abspath(target):
        with writing.whole_file(target, "wb") as file:
            for chunk in paths.chunks_of(vocab_file):
                file.write(chunk)


def check_text(folder: str, text: Mapping[str, object]) -> None:
    """Compares how text is read with what lies beside a model, if anything.

    Args:
        folder: of the model: a run's, the release's or Hugging Face's.
        text: how text is read: `vocab_sha256` and `do_lower_case`.

    Raises:
        ValueError: they differ; names in what.
    """
    held = _read_json(os.path.join(folder, TOKENIZER)) or {}
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
    if "do_lower_case" in text:
        check_casing(folder, bool(text["do_lower_case"]))


def check_casing(folder: str, do_lower_case: bool) -> None:
    """Compares casing with what a model's folder says of it, or shows.

    Args:
        folder: of the model.
        do_lower_case: whether text is lower-cased now.

    Raises:
        ValueError: the folder's own files say, or its vocabulary shows, that
            the model was trained the other way.
    """
    found = casing(folder)
    if found is None or found.do_lower_case == do_lower_case:
        return
    raise ValueError(
        f"do_lower_case must be {found.do_lower_case} for the model in "
        f"{folder}: {found.reason}. Pass --do_lower_case="
        f"{found.do_lower_case}."
        + (
            ""
            if found.is_said
            else f" If it was trained otherwise, put a {TOKENIZER} with "
            f'{{"do_lower_case": {json.dumps(do_lower_case)}}} there.'
        )
    )


def check_vocabulary(folder: str, vocab_file: str) -> None:
    """Compares a vocabulary with that of a model's folder, if it has one.

    Entries that the model's own calls `[unusedN]` may be any word.

    Raises:
        ValueError: they differ in size or in an entry; names the first.
    """
    theirs = os.path.join(folder, VOCABULARY)
    if tf.io.gfile.exists(theirs):
        vocabulary_checks.check_same(vocab_file, theirs)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Casing:
    """Whether a model reads lower-cased text, and how that is known.

    Attributes:
        do_lower_case: whether it does.
        reason: where that comes from.
        is_said: whether a file says so; otherwise the vocabulary shows it.
    """

    do_lower_case: bool
    reason: str
    is_said: bool


def casing(folder: str) -> Casing | None:
    """Finds whether the model in a folder reads lower-cased text.

    By `tokenizer.json` (ours, or that of Hugging Face's library), else
    `tokenizer_config.json`, else the entries of `vocab.txt`.

    Returns:
        None where nothing tells.
    """
    ours = _read_json(os.path.join(folder, TOKENIZER)) or {}
    theirs = _read_json(os.path.join(folder, huggingface_config.TOKENIZER))
    normalizer = ours.get("normalizer")
    if not isinstance(normalizer, dict):
        normalizer = {}
    for name, said in (
        (TOKENIZER, ours.get("do_lower_case")),
        (huggingface_config.TOKENIZER, (theirs or {}).get("do_lower_case")),
        (TOKENIZER, normalizer.get("lowercase")),
    ):
        if isinstance(said, bool):
            return Casing(
                do_lower_case=said, reason=f"{name} there says so", is_said=True
            )
    path = os.path.join(folder, VOCABULARY)
    if not tf.io.gfile.exists(path):
        return None
    shown = vocabulary_checks.is_lower_case(path)
    if shown is None:
        return None
    which = "no entry has" if shown else "many entries have"
    return Casing(
        do_lower_case=shown,
        reason=f"{which} capitals or accents in {VOCABULARY} there",
        is_said=False,
    )


def check_origin(path: str, output_dir: str) -> None:
    """Compares a run's vocabulary and casing with those of what it starts from.

    Args:
        path: of the checkpoint that the run starts from.
        output_dir: of the run; what `claim_text` put there counts.

    Raises:
        ValueError: they differ.
    """
    folder = of_checkpoint(path)
    vocab_file = os.path.join(output_dir, VOCABULARY)
    text = _read_json(os.path.join(output_dir, TOKENIZER))
    if os.path.realpath(folder) == os.path.realpath(output_dir):
        return
    if text:
        check_text(folder, text)
    if tf.io.gfile.exists(vocab_file):
        check_vocabulary(folder, vocab_file)


def labels(folder: str) -> dict | None:
    """Reads what the model in a folder answers; None if it does not say."""
    held = _read_json(os.path.join(folder, LABELS))
    if held is not None:
        return held
    path = os.path.join(folder, huggingface_config.CONFIG)
    return huggingface_config.labels_of(_read_json(path) or {}, path)


def answers_differ(folder: str, labels_now: Mapping[str, object]) -> bool:
    """Tells whether the model in a folder answers with other labels.

    A folder that does not say, such as one of the release, may hold any.
    """
    held = labels(folder)
    return held is not None and held != dict(labels_now)


def of_checkpoint(path: str) -> str:
    """Returns the folder that a checkpoint, however it is named, lies in."""
    return config_beside.folder_of(path)


def _read_json(path: str) -> dict | None:
    if not tf.io.gfile.exists(path):
        return None
    return json_text.read_object(path)
