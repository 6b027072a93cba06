"""The description of a model in its folder.

A folder with weights also contains `bert_config.json`; `vocab.txt`; and
`task.json`, which has the task, the casing, the labels and whatever else is
needed to predict as the model was trained. They are written when training
starts, so a folder can be copied and moved. Folders of the release and of
Hugging Face are read as far as they have this information.
"""

import dataclasses
import itertools
import math
import os
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from absl import logging

from files import json_text, lines, messages, paths, run_files, writing
from modeling import config as config_lib
from modeling import huggingface_config
from training import flags as training_flags

PRETRAINING, CLASSIFICATION = "pretraining", "classification"
QUESTION_ANSWERING, TAGGING = "question_answering", "tagging"
MULTIPLE_CHOICE = "multiple_choice"
TASKS = (
    PRETRAINING,
    CLASSIFICATION,
    QUESTION_ANSWERING,
    TAGGING,
    MULTIPLE_CHOICE,
)
# The entries on which the meaning of the weights depends.
_TEXT = ("vocab_sha256", "do_lower_case", "strip_accents")
_ATTENTION = ("attention",)
_OUTPUTS = ("task", "name", "problem_type", "labels")
_NETWORK = ("objective", "bilstm_head", "features")
# Fields of a configuration that have no effect without training.
_TRAINING_ONLY = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout_prob",
    "initializer_range",
)
_TASK_OF_CLASS = {
    "BertForPreTraining": PRETRAINING,
    "BertForMaskedLM": PRETRAINING,
    "BertForSequenceClassification": CLASSIFICATION,
    "BertForTokenClassification": TAGGING,
    "BertForQuestionAnswering": QUESTION_ANSWERING,
    "BertForMultipleChoice": MULTIPLE_CHOICE,
}
# Options of Hugging Face's tokenizer with the values of BERT's.
_TOKENIZATION = (
    "tokenize_chinese_chars",
    "handle_chinese_chars",
    "clean_text",
    "do_basic_tokenize",
)
_SPECIAL = re.compile(r"\[.*\]|<.*>")
_UNUSED = re.compile(r"\[unused\d+\]")
# Shares of entries that lower-casing and accent stripping would change. They
# change none of the released uncased vocabulary, 30 % of the cased ones, and 2
# of 21,128 of the Chinese one, whose model reads lower-cased text.
_LEAST_SHARE_CASED = 0.02
_MOST_SHARE_UNCASED = 0.001
# A smaller vocabulary does not show its casing.
_LEAST_LETTERED_ENTRIES = 500

_Options = TypeVar("_Options", bound=training_flags.TrainingOptions)


# --------------------------------------------------------------------- Reading


def read(folder: str) -> dict[str, Any]:
    """Reads the description of the model in a folder.

    Returns:
        The contents of `task.json`. Without this file: the `task`, `labels`,
        `problem_type`, `do_lower_case` and `strip_accents` that Hugging Face's
        files state, and the casing that the vocabulary shows; any of them may
        be missing.

    Raises:
        ValueError: a file is not a JSON object.
    """
    if _is_described(folder):
        return _read_json(folder, run_files.TASK)
    found: dict[str, Any] = {}
    if (vocab_file := vocabulary(folder)) is not None:
        found["do_lower_case"] = is_vocabulary_lower_case(vocab_file)
    stated = _tokenizer(folder)
    found |= {key: stated.get(key, found.get(key)) for key in _TEXT[1:]}
    config_file = os.path.join(folder, huggingface_config.CONFIG)
    config = _read_json(folder, huggingface_config.CONFIG)
    found |= huggingface_config.labels_of(config, config_file)
    for name in config.get("architectures") or []:
        found["task"] = _TASK_OF_CLASS.get(name)
    return {key: value for key, value in found.items() if value is not None}


def _is_described(folder: str) -> bool:
    return paths.exists(os.path.join(folder, run_files.TASK))


def _tokenizer(folder: str) -> dict[str, Any]:
    """Reads the options of a folder's tokenizer that Hugging Face states."""
    normalizer = _read_json(folder, "tokenizer.json").get("normalizer") or {}
    if "lowercase" in normalizer:
        normalizer["do_lower_case"] = normalizer["lowercase"]
    stated = normalizer | _read_json(folder, huggingface_config.TOKENIZER)
    for name in _TOKENIZATION:
        if stated.get(name) is False:
            raise ValueError(
                f"{name} must be true for the model in {folder}, as in BERT's "
                f"tokenizer; {huggingface_config.TOKENIZER} or tokenizer.json "
                "there states false. This tokenization is not supported."
            )
    return {
        name: stated[name]
        for name in ("do_lower_case", "strip_accents")
        if isinstance(stated.get(name), bool)
    }


def _read_json(folder: str, name: str) -> dict[str, Any]:
    path = os.path.join(folder, name)
    return json_text.read_object(path) if paths.exists(path) else {}


def vocabulary(folder: str) -> str | None:
    """Returns the path of the vocabulary in a model's folder, if it has one."""
    path = os.path.join(folder, run_files.VOCABULARY)
    return path if paths.exists(path) else None


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


# --------------------------------------------------------------------- Writing


def describe(
    folder: str,
    config: Mapping[str, Any],
    description: Mapping[str, Any],
    vocab_file: str | None = None,
    *,
    is_training: bool,
    start: str | None = None,
) -> None:
    """Describes a model whose training starts, or compares the description.

    If the folder has a checkpoint, it must be of the same model. Dropout and
    the initialization may differ. Otherwise the weights to start from must fit,
    see `check_start`. Without training, only a folder that another program
    wrote is described: this run says what it cannot say.

    Args:
        folder: of the run or the trial, created if missing.
        config: the contents of `bert_config.json`.
        description: the contents of `task.json`: `task` is one of `TASKS`.
        vocab_file: the vocabulary; None to leave that of the folder.
        is_training: whether the model is trained.
        start: the `init_checkpoint` of the run.

    Raises:
        ValueError: the folder has a checkpoint of another model, or the weights
            do not fit; the message names what differs.
    """
    if is_training and ("[" in folder or "\\" in folder):
        raise ValueError(
            "--output_dir must not contain [ or a backslash: TensorFlow takes "
            f"them for a pattern when it reads checkpoints. Got {folder}."
        )
    has_checkpoint = bool(run_files.checkpoints_in(folder))
    # Only this program writes a state beside its checkpoints.
    is_ours = bool(paths.matching(folder, "*.state.json"))
    if has_checkpoint:
        _check_same(folder, config, description, is_ours=is_ours)
        if vocab_file is not None:
            check_vocabulary(folder, vocab_file)
    elif start:
        check_start(
            start, description, vocab_file, with_outputs=not is_training
        )
    if is_training or (has_checkpoint and not is_ours):
        write(folder, config, description, vocab_file)


def write(
    folder: str,
    config: Mapping[str, Any],
    description: Mapping[str, Any],
    vocab_file: str | None = None,
) -> None:
    """Writes the files that describe a model beside its weights.

    Args:
        folder: of the model, created if missing.
        config: the contents of `bert_config.json`.
        description: the contents of `task.json`; it is not written if empty.
        vocab_file: the vocabulary to copy, if any.
    """
    writing.write_json(
        os.path.join(folder, config_lib.FILE), dict(sorted(config.items()))
    )
    if description:
        writing.write_json(
            os.path.join(folder, run_files.TASK),
            {
                # JSON has no infinities.
                key: str(value) if value in (math.inf, -math.inf) else value
                for key, value in description.items()
            },
        )
    target = os.path.join(folder, run_files.VOCABULARY)
    if vocab_file and os.path.abspath(vocab_file) != os.path.abspath(target):
        writing.copy_file(vocab_file, target)


def update(folder: str, **values: Any) -> None:
    """Changes entries of `task.json` that are chosen after training."""
    if _is_described(folder):
        writing.write_json(
            os.path.join(folder, run_files.TASK), {**read(folder), **values}
        )


def _check_same(folder, config, description, *, is_ours: bool) -> None:
    held, there = _read_json(folder, config_lib.FILE), read(folder)
    sizes = {k: v for k, v in config.items() if k not in _TRAINING_ONLY}
    fixed = (*_TEXT, *_ATTENTION, *_NETWORK, *(_OUTPUTS if is_ours else ()))
    differing = [
        *_differences(held, sizes, sizes),
        *_differences(there, description, fixed),
    ]
    if differing:
        raise ValueError(
            f"The model in {folder} is another one: {'; '.join(differing)}. "
            "Choose another --output_dir, or pass the values there."
        )


def _differences(
    there: Mapping[str, Any], here: Mapping[str, Any], names: Iterable[str]
) -> list[str]:
    return [
        f"{name} is {messages.truncate(repr(there[name]))} there and "
        f"{messages.truncate(repr(here[name]))} here"
        for name in names
        if name in there
        and name in here
        and _folded(there[name]) != _folded(here[name])
    ]


def _folded(value: Any) -> Any:
    """Lower-cases labels: other programs write the same ones in capitals."""
    is_list = isinstance(value, list)
    return [str(name).lower() for name in value] if is_list else value


def check_start(
    checkpoint: str,
    description: Mapping[str, Any],
    vocab_file: str | None = None,
    *,
    with_outputs: bool = False,
) -> None:
    """Checks that weights fit the text and the attention of a run.

    Args:
        checkpoint: of `--init_checkpoint`: a folder, prefix or file. Its
            folder's description is compared, if there is one.
        description: of the run, in the form of `task.json`.
        vocab_file: of the run. Words may replace `[unusedN]` entries.
        with_outputs: whether the output layer is used too.

    Raises:
        ValueError: the vocabulary, the casing, the attention or the output
            layer differs. Checkpoints of other programs do not state all.
    """
    folder = config_lib.folder_of(checkpoint)
    there, vocab = read(folder), vocabulary(folder)
    if vocab is not None and vocab_file is not None:
        check_vocabulary(folder, vocab_file)
        there.pop("vocab_sha256", None)
    if (
        vocab is not None
        and not _is_described(folder)
        and description.get("do_lower_case")
        and is_vocabulary_lower_case(vocab)
    ):
        # Hugging Face's copy of the Chinese model states the opposite.
        there = {k: v for k, v in there.items() if k not in _TEXT}
    differing = _differences(there, description, (*_TEXT, *_ATTENTION))
    if differing:
        raise ValueError(
            f"The model of {checkpoint} does not fit: {'; '.join(differing)}. "
            "Pass the values there, or choose another checkpoint."
        )
    differing = _differences(there, description, _OUTPUTS)
    if with_outputs and differing:
        raise ValueError(
            f"The output layer of {checkpoint} is another one: "
            f"{'; '.join(differing)}. Evaluate it with the script and the "
            "labels of its training. If labels have the same meaning, name "
            f"them alike in its folder's {run_files.TASK}."
        )


def outputs_differ(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Returns whether the output layers of two descriptions differ."""
    return bool(_differences(there, here, _OUTPUTS))


def check_vocabulary(folder: str, vocab_file: str) -> None:
    """Compares a vocabulary with that of a model's folder, if it has one.

    Blank lines at the end are ignored, and any word may replace an `[unusedN]`
    entry of the model's, as the release suggests.

    Raises:
        OSError: a file cannot be opened.
        ValueError: they differ in size or in an entry; the message names the
            first difference.
    """
    theirs = vocabulary(folder)
    if theirs is None:
        return
    entries, expected = _entries(vocab_file), _entries(theirs)
    pairs = itertools.zip_longest(entries, expected)
    for number, (one, other) in enumerate(pairs, start=1):
        if one == other or (one and other and _UNUSED.fullmatch(other)):
            continue
        shown, there = (
            "the end" if entry is None else repr(entry)
            for entry in (one, other)
        )
        raise ValueError(
            f"The vocabulary must be that of the model: {vocab_file} "
            f"({len(entries)} entries) differs from {theirs} "
            f"({len(expected)} entries) first in line {number}: {shown}, there "
            f"{there}. Pass --vocab_file={theirs}."
        )


def check_weights(options: training_flags.TrainingOptions) -> None:
    """Checks that the weights that a run needs exist.

    Call this check last: for an existing path it imports TensorFlow, for which
    other errors need not wait.

    Raises:
        FileNotFoundError: `--init_checkpoint` does not exist.
        ValueError: its format is not supported; or the run does not train and
            there is no checkpoint to evaluate.
    """
    folder = options.output_dir
    if run_files.checkpoints_in(folder):
        return
    if options.init_checkpoint:
        # Late, for a quick --help: this import takes 10 ms.
        from modeling import checkpoints

        checkpoints.find(options.init_checkpoint)
    elif not options.do_train and not (
        run_files.checkpoints_in(folder, in_trials=True)
    ):
        raise ValueError(
            f"There is nothing to evaluate: {folder} holds no checkpoint and "
            "--init_checkpoint is not given."
        )


# ------------------------------------------------------------------- Following


def known(options: training_flags.TrainingOptions) -> dict[str, Any]:
    """Returns the description of the model that a run does not train.

    Args:
        options: of the run. The model is in `output_dir` or its trials, else
            at `init_checkpoint`.

    Returns:
        The contents of `task.json`, as `read` returns them, and `folder`, the
        model's. Empty if the run trains.
    """
    if options.do_train:
        return {}
    folder = options.output_dir
    if getattr(options, "use_best_checkpoint", False):
        folder = os.path.join(folder, run_files.BEST)
    if not run_files.checkpoints_in(folder):
        trials = run_files.checkpoints_in(options.output_dir, in_trials=True)
        if trials:  # Their models differ in their weights alone.
            folder = os.path.dirname(trials[0])
        elif options.init_checkpoint:
            folder = config_lib.folder_of(options.init_checkpoint)
    return {**read(folder), "folder": folder}


def follow(options: _Options, task: str, given: Collection[str]) -> _Options:
    """Takes the flags of a run that does not train from the model's folder.

    Args:
        options: of the run.
        task: of the run, one of `TASKS`. A model of another task is not
            followed.
        given: the names of the flags on the command line. They keep their
            values, and so do values that are not the defaults.

    Returns:
        The options, with the values in `task.json` of flags that are not given.
    """
    there = known(options)
    if there.get("task") not in (None, task):
        return options
    followed: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        name, here = field.name, getattr(options, field.name)
        value = there.get(name)
        if value in ("inf", "-inf"):
            value = float(value)
        if isinstance(value, list) and isinstance(here, tuple):
            value = tuple(value)
        if value is None or value == here or name in _OUTPUTS:
            continue
        if name in given or here != field.default:
            logging.warning(
                "--%s=%s is not the value of the model in %s, which is %s.",
                name,
                here,
                there["folder"],
                value,
            )
        else:
            followed[name] = value
    if followed:
        values = ", ".join(f"--{k}={v}" for k, v in followed.items())
        logging.info("Flags not given, from %s: %s", there["folder"], values)
    return dataclasses.replace(options, **followed)
