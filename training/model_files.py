"""The model in a folder: configuration, vocabulary, casing, labels, attention.

Beside checkpoints, a run's folder contains `bert_config.json`; `vocab.txt`, a
copy of the vocabulary; `tokenizer.json`, the casing; and `labels.json`, the
labels of the outputs. The state file of a checkpoint has the attention. Folders
of the release and of Hugging Face are read as far as they have this
information.
"""

import itertools
import json
import os
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import logging

from files import json_text, lines, messages, paths, run_files, writing
from modeling import checkpoints, huggingface_config, name_tables
from modeling import config as config_lib
from training import flags as training_flags

_OUTPUT_LAYER = "output_weights"
_LABELING = (
    name_tables.SEQUENCE_CLASSIFICATION,
    name_tables.TOKEN_CLASSIFICATION,
)
_TAGS = "tags, "  # The prefix of run_ner.py's objectives.
_SPECIAL = re.compile(r"\[.*\]|<.*>")
_UNUSED = re.compile(r"\[unused\d+\]")
# Fields of a configuration that have no effect without training.
_TRAINING_ONLY = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob"),
    *("classifier_dropout_prob", "initializer_range"),
)
# Shares of entries that lower-casing and accent stripping would change. They
# change none of the released uncased vocabulary, 30 % of the cased ones, and 2
# of 21,128 of the Chinese one, whose model reads lower-cased text.
_LEAST_SHARE_CASED = 0.02
_MOST_SHARE_UNCASED = 0.001
# A smaller vocabulary does not show its casing.
_LEAST_LETTERED_ENTRIES = 500


def read(folder: str, name: str, **kinds: type) -> dict[str, Any]:
    """Reads a JSON file of a model's folder; empty if it is missing.

    Args:
        folder: the model's.
        name: of the file.
        **kinds: the types of entries, which may be missing.

    Raises:
        ValueError: it is not a JSON object, or an entry has another type.
    """
    path = os.path.join(folder, name)
    values = json_text.read_object(path) if paths.exists(path) else {}
    return _checked(values, path, **kinds)


def _checked(values: dict[str, Any], path: str, **kinds: type) -> dict:
    for name, kind in kinds.items():
        if name in values and type(values[name]) is not kind:
            raise ValueError(
                f"{path}: {name} must be of type {kind.__name__}; got "
                f"{messages.short(values[name])}."
            )
    return values


def identity(prefix: str) -> dict[str, Any]:
    """Reads the identity of the run that wrote a checkpoint, if it is known.

    Raises:
        ValueError: its state file is damaged.
    """
    path = f"{prefix}.state.json"
    found = read("", path, identity=dict).get("identity", {})
    return _checked(found, path, max_seq_length=int, objective=str)


def is_tagger(identity: Mapping[str, Any]) -> bool:
    """Returns whether the run of an identity trained a tagger."""
    return identity.get("objective", "").startswith(_TAGS)


def check_attention(options: training_flags.TrainingOptions) -> None:
    """Checks that checkpoints were trained with the attention of the flags.

    Source: Devlin et al. 2019, §5.1. A left-to-right model has the variables of
    BERT, so its weights do not show the attention; the state file of this
    project's checkpoints does.

    Checks the checkpoint in `output_dir` and `init_checkpoint`. Checkpoints of
    other programs do not record their attention and are not checked.

    Raises:
        ValueError: a checkpoint has another attention.
    """
    from training import checkpointing

    now = training_flags.BIDIRECTIONAL
    if options.is_causal:
        now = training_flags.CAUSAL
    # A run resumes from the latest readable checkpoint.
    latest = itertools.islice(
        checkpointing.readable_states(options.output_dir), 1
    )
    prefixes = [prefix for prefix, _ in latest]
    for prefix in filter(None, [*prefixes, _found(options.init_checkpoint)]):
        trained = attention_of(identity(prefix))
        if trained is not None and trained != now:
            raise ValueError(
                f"{prefix} was trained with {trained} attention, and this run "
                f"has {now} ({options.causal_flag}). The attention of a model "
                "cannot be changed; choose the matching flag or checkpoint."
            )


def attention_of(identity: Mapping[str, Any]) -> str | None:
    """Returns one of `training_flags.ATTENTIONS`; None if it is unknown.

    Args:
        identity: of the run that trained the model.
    """
    if identity.get("objective") == "ltr":
        return training_flags.CAUSAL
    # Fine-tuned models record only causal attention.
    unstated = training_flags.BIDIRECTIONAL if identity else None
    return identity.get("attention", unstated)


def check_bidirectional(path: str) -> None:
    """Checks that a checkpoint has bidirectional attention.

    For programs without a causal mode. Checkpoints of other programs are not
    checked.

    Args:
        path: a prefix, one of its files, or a folder.

    Raises:
        ValueError: it was trained from left to right.
    """
    prefix = _found(path)
    if prefix and attention_of(identity(prefix)) == training_flags.CAUSAL:
        raise ValueError(
            f"{prefix} was trained from left to right (--objective=ltr, "
            "--attention=causal): each word attends only to earlier words. "
            "This program needs bidirectional attention. Only the fine-tuning "
            "scripts with --attention accept it."
        )


def _found(path: str | None) -> str | None:
    """Finds a checkpoint; a missing one is reported by its reader."""
    try:
        return checkpoints.find(path).path if path else None
    except (FileNotFoundError, ValueError):
        return None


def validate_output_dir(
    output_dir: str,
    config: Mapping[str, object],
    *,
    vocab_file: str | None = None,
    text: Mapping[str, object] | None = None,
    labels: Mapping[str, object] | None = None,
    is_training: bool = False,
) -> None:
    """Checks that a folder has no other model, and writes the description.

    A folder without a description, such as one of the release, is accepted:
    shapes are compared when its weights are loaded. Dropout and the
    initialization may differ; without training the configuration there stays.

    Args:
        output_dir: the run's folder, created if missing.
        config: the configuration.
        vocab_file: the vocabulary; None if the model does not read text.
        text: `vocab_sha256` and `do_lower_case`; None without a vocabulary.
        labels: `problem_type` and `labels` of the outputs; None if there are
            none.
        is_training: whether the model is trained further.

    Raises:
        ValueError: the folder has a model with another configuration,
            vocabulary, casing or other labels.
    """
    import tensorflow as tf

    from training import checkpointing

    tf.io.gfile.makedirs(output_dir)
    has_run = checkpointing.latest(output_dir) is not None
    held = read(output_dir, config_lib.FILE)
    if has_run:
        differing = messages.changes(held, config)
        if not differing.keys() <= {*_TRAINING_ONLY}:
            raise ValueError(
                f"{output_dir} contains another model: "
                f"{', '.join(differing.values())}. Choose another --output_dir."
            )
        if differing and is_training:
            logging.warning(
                "The model in %s was trained with another configuration: %s.",
                *(output_dir, ", ".join(differing.values())),
            )
        if held and not is_training:
            config = held
    if held != config:
        path = os.path.join(output_dir, config_lib.FILE)
        writing.write_json(path, dict(config))
    if vocab_file is not None and text is not None:
        if has_run:
            check_text(output_dir, text, vocab_file, may_replace_unused=False)
        writing.write_json(
            os.path.join(output_dir, run_files.TOKENIZER), dict(text)
        )
        target = os.path.join(output_dir, run_files.VOCABULARY)
        if os.path.abspath(vocab_file) != os.path.abspath(target):
            writing.copy_file(vocab_file, target)
    if labels is not None:
        if _holds_model(output_dir) and answers_differ(output_dir, labels):
            raise ValueError(
                f"The model in {output_dir} was trained for other labels "
                f"({run_files.LABELS} there) than {dict(labels)}. Choose "
                "another --output_dir."
            )
        path = os.path.join(output_dir, run_files.LABELS)
        writing.write_json(path, dict(labels))


def _holds_model(folder: str) -> bool:
    try:
        checkpoints.find(folder)
    except FileNotFoundError:
        return False
    except ValueError:
        return True  # Several checkpoints, or an unsupported format.
    return True


def check_text(
    folder: str,
    text: Mapping[str, object],
    vocab_file: str | None = None,
    *,
    may_replace_unused: bool = True,
) -> None:
    """Compares vocabulary and casing with the files beside a model, if any.

    Args:
        folder: the model's: of a run, the release or Hugging Face.
        text: `vocab_sha256` and `do_lower_case`.
        vocab_file: compared entry by entry if the folder has a vocabulary;
            otherwise its hash is compared.
        may_replace_unused: as in `check_vocabulary`.

    Raises:
        ValueError: they differ; the message names the difference.
    """
    held = read(folder, run_files.TOKENIZER)
    if vocab_file is not None and vocabulary(folder) is not None:
        held.pop("vocab_sha256", None)
    differing = messages.changes(held, text)
    if differing:
        raise ValueError(
            f"The model in {folder} was trained with another vocabulary or "
            f"casing: {'; '.join(differing.values())}. Pass its vocabulary "
            f"({run_files.VOCABULARY} there) and its casing."
        )
    if "do_lower_case" in text:
        check_casing(
            folder,
            bool(text["do_lower_case"]),
            bool(text.get("strip_accents", text["do_lower_case"])),
        )
    if vocab_file is not None:
        check_vocabulary(
            folder, vocab_file, may_replace_unused=may_replace_unused
        )


def check_casing(
    folder: str, do_lower_case: bool, strip_accents: bool | None = None
) -> None:
    """Compares the casing with that of a model's folder.

    Also refuses a tokenizer of Hugging Face that splits text differently.
    Lower-casing is accepted with a warning if the vocabulary is lower-case and
    only a file of another program states the opposite, as in Hugging Face's
    copy of the release's Chinese model.

    Args:
        folder: the model's.
        do_lower_case: whether text is lower-cased now.
        strip_accents: likewise; None: as `do_lower_case`.

    Raises:
        ValueError: according to the folder's files or its vocabulary, the
            model was trained with the other casing.
    """
    # Options of a tokenizer that BERT's does not have.
    ours = read(folder, run_files.TOKENIZER)
    theirs = read(folder, huggingface_config.TOKENIZER)
    for name, values in (
        (huggingface_config.TOKENIZER, theirs),
        (run_files.TOKENIZER, _part(ours, "normalizer")),
    ):
        for option, want in (
            (
                "strip_accents",
                do_lower_case if strip_accents is None else strip_accents,
            ),
            ("tokenize_chinese_chars", True),
            ("handle_chinese_chars", True),
            ("clean_text", True),
            ("do_basic_tokenize", True),
        ):
            if isinstance(values.get(option), bool) and values[option] != want:
                raise ValueError(
                    f"{option} must be {want} in {os.path.join(folder, name)}, "
                    f"as in BERT's tokenizer with do_lower_case="
                    f"{do_lower_case}; got {values[option]}. This tokenization "
                    "is not supported."
                )
    found = casing(folder)
    if found is None or found.do_lower_case == do_lower_case:
        return
    path = vocabulary(folder)
    is_recorded = "do_lower_case" in ours  # By the run that trained the model.
    if (
        do_lower_case
        and not is_recorded
        and path is not None
        and is_vocabulary_lower_case(path)
    ):
        logging.warning(
            "do_lower_case is True, as the entries of %s suggest, but the "
            "model there has False: %s.",
            *(path, found.reason),
        )
        return
    raise ValueError(
        f"do_lower_case must be {found.do_lower_case} for the model in "
        f"{folder}: {found.reason}. Pass --do_lower_case="
        f"{found.do_lower_case}."
    )


def check_vocabulary(
    folder: str, vocab_file: str, *, may_replace_unused: bool = True
) -> None:
    """Compares a vocabulary with that of a model's folder, if it has one.

    Blank lines at the end are ignored.

    Args:
        folder: the model's.
        vocab_file: the vocabulary.
        may_replace_unused: whether any word may replace an `[unusedN]` entry of
            the model's vocabulary, as the release suggests.

    Raises:
        OSError: a file cannot be opened.
        ValueError: they differ in size or in an entry; the message names the
            first difference.
    """
    theirs = vocabulary(folder)
    if theirs is None:
        return
    entries, expected = _entries(vocab_file), _entries(theirs)
    replaced = 0
    for number, (one, other) in enumerate(
        itertools.zip_longest(entries, expected), start=1
    ):
        if one == other:
            continue
        is_unused = bool(other and _UNUSED.fullmatch(other))
        if one is None or not (is_unused and may_replace_unused):
            shown, there = (
                "the end" if entry is None else repr(entry)
                for entry in (one, other)
            )
            raise ValueError(
                f"The vocabulary must be that of the model: {vocab_file} "
                f"({len(entries)} entries) differs from {theirs} "
                f"({len(expected)} entries) first in line {number}: "
                f"{shown}, there {there}. Pass --vocab_file={theirs}."
            )
        replaced += 1
    if replaced:
        logging.info(
            "%s replaces %d [unusedN] entries of %s.",
            *(vocab_file, replaced, theirs),
        )


def is_vocabulary_lower_case(path: str) -> bool | None:
    """Returns whether a vocabulary is of lower-cased text without accents.

    Returns:
        None if the entries do not show it.

    Raises:
        OSError: a file cannot be opened.
    """
    words = [e for e in _entries(path) if not _SPECIAL.fullmatch(e)]
    lettered = [word for word in words if word.lower() != word.upper()]
    if len(lettered) < _LEAST_LETTERED_ENTRIES:
        return None
    share = sum(_lowered(word) != word for word in words) / len(words)
    if share >= _LEAST_SHARE_CASED:
        return False
    return True if share <= _MOST_SHARE_UNCASED else None


def _entries(path: str) -> list[str]:
    """Lists the entries of a vocabulary file, up to blank lines at its end."""
    entries = [line.strip() for line in lines.read_lines(path)]
    while entries and not entries[-1]:
        entries.pop()
    return entries


def _lowered(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def vocabulary(folder: str) -> str | None:
    """Returns the path of the vocabulary in a model's folder, if it has one."""
    names = (run_files.VOCABULARY,)
    places = (os.path.join(folder, name) for name in names)
    return next((path for path in places if paths.exists(path)), None)


class Casing(NamedTuple):
    """Whether a model reads lower-cased text, and the source, for messages."""

    do_lower_case: bool
    reason: str


def casing(folder: str) -> Casing | None:
    """Finds the casing of the model in a folder.

    From `tokenizer.json` (ours, or that of Hugging Face or keras-hub), else
    `tokenizer_config.json`, else the entries of the vocabulary.

    Returns:
        None if none of these files exists.
    """
    ours = read(folder, run_files.TOKENIZER)
    theirs = read(folder, huggingface_config.TOKENIZER)
    for name, stated in (
        (run_files.TOKENIZER, ours.get("do_lower_case")),
        (huggingface_config.TOKENIZER, theirs.get("do_lower_case")),
        (run_files.TOKENIZER, _part(ours, "normalizer").get("lowercase")),
        (run_files.TOKENIZER, _part(ours, "config").get("lowercase")),
    ):
        if isinstance(stated, bool):
            return Casing(stated, f"its {name} states it")
    path = vocabulary(folder)
    shown = is_vocabulary_lower_case(path) if path else None
    if path is None or shown is None:
        return None
    other = json.dumps(not shown)
    return Casing(
        shown,
        f"{'no' if shown else 'many'} entries of its {os.path.basename(path)} "
        "have capitals or accents (if it was trained otherwise, put a "
        f'{run_files.TOKENIZER} with {{"do_lower_case": {other}}} there)',
    )


def labels(folder: str) -> dict | None:
    """Reads the labels of the model in a folder; None if no file has them."""
    if paths.exists(os.path.join(folder, run_files.LABELS)):
        return read(folder, run_files.LABELS)
    return huggingface_config.labels_of(
        read(folder, huggingface_config.CONFIG),
        os.path.join(folder, huggingface_config.CONFIG),
    )


def labels_beside(checkpoint: str | None) -> dict | None:
    """Reads the labels in the folder of a checkpoint.

    Args:
        checkpoint: a folder, prefix or file.

    Returns:
        None if there is no checkpoint, or no file has them.
    """
    if not checkpoint:
        return None
    return labels(config_lib.folder_of(checkpoint))


def answers_differ(folder: str, labels_now: Mapping[str, object]) -> bool:
    """Returns whether the model in a folder has other labels.

    The same labels in another order are other labels. A folder without this
    information, such as one of the release, is accepted.
    """
    try:
        return output_order(folder, labels_now) is not None
    except ValueError:
        return True


def output_order(
    folder: str, labels_now: Mapping[str, object]
) -> list[int] | None:
    """Finds the output of a folder's model for each label of a run.

    Args:
        folder: the model's.
        labels_now: the labels of the run, in the format of labels.json.

    Returns:
        For each output of the run, the index of the model's output; None if
        the order is the same, or unknown.

    Raises:
        ValueError: the model has other labels.
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
        f"The model in {folder} has labels {messages.short(held)}; "
        f"this run needs {messages.short(now)}. Evaluate with the model's "
        "labels, or train a new output layer. If the labels have the same "
        f"meaning, rename them in {os.path.join(folder, run_files.LABELS)}."
    )


def architectures(source: Any) -> tuple[str, ...]:
    """Returns the Hugging Face classes of a checkpoint, if known.

    Args:
        source: an open `checkpoints.Source`.

    Returns:
        The architectures of a Hugging Face folder; otherwise the class that
        labels words or sentences, according to the state of the run that wrote
        it or a `config.json` beside it. Empty if unknown.
    """
    if source.architectures or _OUTPUT_LAYER not in source.variables:
        return tuple(source.architectures)
    found = identity(source.origin)
    if not found.get("objective"):
        folder = config_lib.folder_of(source.origin)
        stated = read(folder, huggingface_config.CONFIG).get("architectures")
        names = stated if isinstance(stated, list) else []
        return tuple(name for name in names if name in _LABELING)
    if is_tagger(found):
        return (name_tables.TOKEN_CLASSIFICATION,)
    return (name_tables.SEQUENCE_CLASSIFICATION,)


def _part(values: Mapping[str, Any], name: str) -> dict:
    part = values.get(name)
    return part if isinstance(part, dict) else {}
