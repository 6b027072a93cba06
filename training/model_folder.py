"""The files beside a model, with which it can be used alone.

Beside what `checkpointing` writes: `vocab.txt`, a copy of the vocabulary;
`tokenizer.json`, which says how text was read; `labels.json`, which says what
the model answers. The folders of the release and of Hugging Face are understood
too, as far as they say.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from files import json_text, messages, paths, writing
from modeling import checkpoints, huggingface_config, name_tables
from modeling import config as config_lib
from training import checkpointing, vocabulary_checks

VOCABULARY = "vocab.txt"
LABELS = "labels.json"
TOKENIZER = "tokenizer.json"
_OUTPUT_LAYER = "output_weights"
_TAGS = "tags, "  # What run_ner.py calls its objective begins so.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Description:
    """What a model is, reads and answers; mappings have values as JSON has.

    Attributes:
        config: its sizes.
        vocab_file: its vocabulary; None where it reads no text itself.
        text: how text is read: `vocab_sha256` and `do_lower_case`.
        labels: what its outputs mean: `problem_type` and `labels`; None where
            there is nothing to say.
    """

    config: Mapping[str, object]
    vocab_file: str | None = None
    text: Mapping[str, object] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, object] | None = None


def validate_output_dir(output_dir: str, described: Description) -> None:
    """Checks that a folder holds no other model; writes the description.

    A folder without a description, such as one that the release wrote, is
    accepted: shapes are compared when its weights are loaded.

    Args:
        output_dir: the run's folder, made if missing.
        described: the model.

    Raises:
        ValueError: the folder holds a model of other sizes, that reads text
            in another way, or that gives other answers.
    """
    tf.io.gfile.makedirs(output_dir)
    _validate_config(output_dir, described.config)
    if described.vocab_file is not None:
        _validate_text(output_dir, described.vocab_file, described.text)
    if described.labels is not None:
        _validate_labels(output_dir, described.labels)


def _validate_config(output_dir: str, config: Mapping[str, object]) -> None:
    path = os.path.join(output_dir, config_lib.FILE)
    held = _read_json(path) or {}
    if held == config:
        return
    differing = sorted(
        key for key in config if key in held and held[key] != config[key]
    )
    if differing and checkpointing.latest(output_dir):
        raise ValueError(
            f"{output_dir} holds another model: "
            + ", ".join(
                f"{key} is {held[key]!r} there and {config[key]!r} here"
                for key in differing
            )
            + ". Choose another --output_dir."
        )
    writing.write_json(path, dict(config))


def _validate_text(
    output_dir: str, vocab_file: str, text: Mapping[str, object]
) -> None:
    if checkpointing.latest(output_dir):
        check_text(output_dir, text)
    writing.write_json(os.path.join(output_dir, TOKENIZER), dict(text))
    target = os.path.join(output_dir, VOCABULARY)
    if os.path.abspath(vocab_file) != os.path.abspath(target):
        with writing.whole_file(target, "wb") as file:
            for chunk in paths.chunks_of(vocab_file):
                file.write(chunk)


def _validate_labels(output_dir: str, labels_now: Mapping[str, object]) -> None:
    if _holds_model(output_dir) and answers_differ(output_dir, labels_now):
        raise ValueError(
            f"The model in {output_dir} was trained for other labels "
            f"({LABELS} there) than {dict(labels_now)}. Choose another "
            "--output_dir."
        )
    writing.write_json(os.path.join(output_dir, LABELS), dict(labels_now))


def _holds_model(folder: str) -> bool:
    """Tells whether a folder holds a checkpoint of any form."""
    try:
        checkpoints.resolve(folder)
    except FileNotFoundError:
        return False
    except ValueError:
        return True  # Several, or one that is not read here.
    return True


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

    Also refuses a tokenizer of Hugging Face's that splits text otherwise.

    Args:
        folder: of the model.
        do_lower_case: whether text is lower-cased now.

    Raises:
        ValueError: the folder's own files say, or its vocabulary shows, that
            the model was trained the other way.
    """
    _check_tokenizer(folder, do_lower_case)
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


def _check_tokenizer(folder: str, do_lower_case: bool) -> None:
    """Refuses options of a tokenizer that BERT's own does not have."""
    ours = _read_json(os.path.join(folder, TOKENIZER)) or {}
    normalizer = ours.get("normalizer")
    if not isinstance(normalizer, dict):
        normalizer = {}
    theirs = _read_json(os.path.join(folder, huggingface_config.TOKENIZER))
    for name, values in (
        (huggingface_config.TOKENIZER, theirs or {}),
        (TOKENIZER, normalizer),
    ):
        for option, want in (
            ("strip_accents", do_lower_case),
            ("tokenize_chinese_chars", True),
            ("handle_chinese_chars", True),
            ("clean_text", True),
            ("do_basic_tokenize", True),
        ):
            if isinstance(values.get(option), bool) and values[option] != want:
                raise ValueError(
                    f"{option} must be {want} in {os.path.join(folder, name)}, "
                    f"as BERT reads text with do_lower_case={do_lower_case}; "
                    f"got {values[option]}. Such text is not read here."
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
        output_dir: of the run; what `validate_output_dir` put there counts.

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

    Or with the same in another order. A folder that does not say, such as one
    of the release, may hold any.
    """
    try:
        return output_order(folder, labels_now) is not None
    except ValueError:
        return True


def output_order(
    folder: str, labels_now: Mapping[str, object]
) -> list[int] | None:
    """Finds the output of a folder's model that answers each label of a run.

    Args:
        folder: of the model.
        labels_now: what the outputs of the run mean, as labels.json holds it.

    Returns:
        For each output of the run the number of the model's; None where they
        are the same, or nothing tells.

    Raises:
        ValueError: the model answers other labels.
    """
    held, now = labels(folder), dict(labels_now)
    if held is None or held == now:
        return None
    names, wanted = held.get("labels"), now.get("labels")
    if held.get("problem_type") == now.get("problem_type"):
        if names == wanted:
            return None
        if isinstance(names, list) and isinstance(wanted, list):
            unnamed = huggingface_config.are_placeholders(names)
            if unnamed and len(names) == len(wanted):
                return None
            if sorted(map(str, names)) == sorted(map(str, wanted)):
                return [names.index(name) for name in wanted]
    raise ValueError(
        f"The model in {folder} answers {messages.short(held)}; this run needs "
        f"{messages.short(now)}. Evaluate with its own labels, or train: then "
        "the output layer is new. If they mean the same, say so in "
        f"{os.path.join(folder, LABELS)}."
    )


def architectures(source: Any) -> tuple[str, ...]:
    """Says which of Hugging Face's classes a checkpoint is of, where known.

    Args:
        source: a `checkpoints.Source`, open.

    Returns:
        What its `config.json` says; that words are labelled, or sentences, by
        the state of the run that wrote it; nothing where nothing tells.
    """
    if source.architectures or _OUTPUT_LAYER not in source.variables:
        return tuple(source.architectures)
    state = checkpointing.load_state(source.origin) or {}
    identity = state.get("identity")
    objective = identity.get("objective") if isinstance(identity, dict) else ""
    if not objective:
        return ()
    if str(objective).startswith(_TAGS):
        return (name_tables.TOKEN_CLASSIFICATION,)
    return (name_tables.SEQUENCE_CLASSIFICATION,)


def of_checkpoint(path: str) -> str:
    """Returns the folder that a checkpoint, however it is named, lies in."""
    return config_lib.folder_of(path)


def _read_json(path: str) -> dict | None:
    if not tf.io.gfile.exists(path):
        return None
    return json_text.read_object(path)
