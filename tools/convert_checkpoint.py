"""Converts a model to the release's or Hugging Face's format, and describes it.

For example:

  python -m tools.convert_checkpoint \\
    --input=uncased_L-12_H-768_A-12/bert_model.ckpt \\
    --output=bert-base-uncased --output_format=huggingface

The output is a new folder with the weights, the configuration, the vocabulary
and task.json. The format of the input is detected. A folder that the original
program trained does not say what its labels are: state it once, and every
program can use the output:

  python -m tools.convert_checkpoint --input=mrpc_output --output=mrpc \\
    --output_format=release --bert_config_file=$BERT/bert_config.json \\
    --vocab_file=$BERT/vocab.txt --task_name=MRPC --max_seq_length=128
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from absl import logging

from commands import flags, program
from files import messages, paths, run_files, writing
from modeling import checkpoints, huggingface, huggingface_config, name_tables
from modeling import config as config_lib
from tasks import task as task_lib
from tasks.classification import glue
from tools import model_card
from training import flags as training_flags
from training import model_folder, records
from vocab import tokenization

_WEIGHTS = "bert_model.ckpt"  # Source: the names of the released files.
_BILSTM = "bilstm/"
_OUTPUTS = "output_bias"
# The task of a head that shows it, by the name of its output's variable.
_TASK_OF_HEAD = {
    "cls/predictions/output_bias": model_folder.PRETRAINING,
    "cls/squad/output_bias": model_folder.QUESTION_ANSWERING,
    "cls/multiple_choice/output_weights": model_folder.MULTIPLE_CHOICE,
}
# The entries of task.json that a model of a task needs besides the casing.
_NEEDED = {
    model_folder.CLASSIFICATION: ("labels", "max_seq_length"),
    model_folder.TAGGING: ("labels", "max_seq_length"),
    model_folder.QUESTION_ANSWERING: (
        "version_2_with_negative",
        "max_seq_length",
    ),
    model_folder.MULTIPLE_CHOICE: ("max_seq_length",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `tools.convert_checkpoint`; see --help."""

    input: str = flags.Group.FILES.required(
        "Checkpoint: prefix, .index file, Hugging Face folder, or a folder "
        "with one of them."
    )
    output: str = flags.Group.FILES.required("New folder for the model.")
    output_format: str = flags.Group.FILES.required(
        "Format of the output.", choices=("release", "huggingface")
    )
    bert_config_file: str | None = flags.Group.MODEL.optional(
        "JSON file with the sizes of the model; by default that next to the "
        "input."
    )
    strip_optimizer: bool = flags.Group.MODEL.switch(
        "Omit the moments of the optimizer and the step; Hugging Face's format "
        "has neither."
    )
    vocab_file: str | None = flags.Group.TEXT.optional(
        "Vocabulary of the model; by default the vocab.txt next to the input."
    )
    do_lower_case: bool | None = flags.Group.TEXT.optional(
        "Whether the model reads lower-cased text; by default taken from the "
        "files next to the input or from the vocabulary."
    )
    task: str | None = flags.Group.MODEL.optional(
        "What the model was trained for, if the files next to the input do "
        "not say it.",
        choices=model_folder.TASKS,
    )
    task_name: str | None = flags.Group.MODEL.optional(
        "Name of the data of a classifier. A task of GLUE, or XNLI, has known "
        "labels."
    )
    labels: tuple[str, ...] | None = flags.Group.MODEL.optional(
        "Labels of a classifier or tagger, comma-separated, in the order of "
        "the outputs: that of get_labels in the original program."
    )
    max_seq_length: int | None = flags.Group.TEXT.optional(
        "Longest sequence in word pieces with which the model was trained."
    )
    version_2_with_negative: bool | None = flags.Group.MODEL.optional(
        "Whether a question answering model leaves questions unanswered (SQuAD "
        "2.0)."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model:
    """A model to be converted.

    Attributes:
        variables: arrays by the release's name.
        config: its sizes.
        vocab_file: its vocabulary, or None.
        description: the entries of its `task.json`.
    """

    variables: Mapping[str, np.ndarray]
    config: config_lib.BertConfig
    vocab_file: str | None
    description: Mapping[str, Any]

    @property
    def architectures(self) -> list[str]:
        """Hugging Face's classes; see `name_tables.architectures`."""
        is_tagger = self.description.get("task") == model_folder.TAGGING
        hint = name_tables.TOKEN_CLASSIFICATION if is_tagger else None
        return name_tables.architectures(self.variables, hint)


def convert(options: Options) -> None:
    """Reads a model and writes it into a new folder.

    Raises:
        OSError: a file is missing, or cannot be read or written; or the output
            exists.
        ValueError: the input is broken, unsupported, or contradicts its
            configuration, vocabulary or description; or the description lacks
            an entry.
    """
    if paths.is_remote(options.output):
        raise ValueError(
            f"--output must be a local folder; got {options.output}."
        )
    if os.path.lexists(options.output):
        raise FileExistsError(
            f"--output must be a new folder; {options.output} exists."
        )
    writing.check_folder(os.path.dirname(os.path.abspath(options.output)))
    model = _read(options)
    with writing.whole_folder(options.output) as folder:
        os.makedirs(folder)
        if options.output_format == checkpoints.RELEASE:
            checkpoints.save(os.path.join(folder, _WEIGHTS), model.variables)
        else:
            _write_huggingface(folder, model)
            _write_card(options, folder, model)
        with writing.whole_file(os.path.join(folder, config_lib.FILE)) as file:
            file.write(model.config.to_json_string())
        if model.vocab_file is not None:
            writing.copy_file(
                model.vocab_file, os.path.join(folder, run_files.VOCABULARY)
            )
        if model.description:
            _write_json(folder, run_files.TASK, model.description)
    logging.info(
        "Wrote %s: %s, %d variables, %s numbers.",
        options.output,
        " and ".join(model.architectures) or "a model without an encoder",
        len(model.variables),
        f"{sum(math.prod(v.shape) for v in model.variables.values()):,}",
    )


# ---------------------------------------------------------------- The input


def _read(options: Options) -> _Model:
    """Reads a checkpoint, and checks it against the files next to it."""
    folder = config_lib.folder_of(options.input)
    if options.bert_config_file is None:
        config = config_lib.BertConfig.from_checkpoint(options.input)
    else:
        config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    vocab_file = options.vocab_file or model_folder.vocabulary(folder)
    if vocab_file is not None:
        model_folder.check_vocabulary(folder, vocab_file)
        size = len(tokenization.load_vocab(vocab_file))
        config.check_vocabulary(size, vocab_file)
    with checkpoints.opened(options.input) as source:
        logging.info(
            "%s is a checkpoint in the %s format.", source.origin, source.kind
        )
        _check(source, config)
        description = _describe(options, source, vocab_file)
        variables = {
            name: _widened(source.read(name))
            for name in source.variables
            if not options.strip_optimizer
            or not checkpoints.is_training_state(name, source.variables)
        }
    return _Model(
        variables=variables,
        config=config,
        vocab_file=vocab_file,
        description=description,
    )


def _widened(value: np.ndarray) -> np.ndarray:
    is_half = value.dtype.name in ("float16", "bfloat16")
    return value.astype(np.float32) if is_half else value


def _check(source: checkpoints.Source, config: config_lib.BertConfig) -> None:
    config.check_checkpoint(source.origin, source.num_attention_heads)
    held = {name: shape for name, (shape, _) in source.variables.items()}
    checkpoints.check_types(
        source.origin,
        {
            name: source.variables[name][1]
            for name in held
            if name.startswith(("bert/", "cls/", "output_"))
        },
    )
    if name_tables.WORD_EMBEDDINGS in held:
        checkpoints.check_variables(
            source.origin, config.encoder_shapes(), held, [name_tables.POOLER]
        )


# -------------------------------------------------------------- The description


def _describe(
    options: Options, source: checkpoints.Source, vocab_file: str | None
) -> dict[str, Any]:
    """Joins what the folder of the input says and what the flags say."""
    folder = config_lib.folder_of(options.input)
    found = _told_by_weights(source) | model_folder.read(folder)
    if vocab_file is not None:
        vocab = tokenization.load_vocab(vocab_file)
        found["vocab_sha256"] = records.vocab_sha256(vocab)
        if "do_lower_case" not in found:
            shown = model_folder.is_vocabulary_lower_case(vocab_file)
            found |= {} if shown is None else {"do_lower_case": shown}
    for name, value in _told_by_flags(options).items():
        if found.get(name, value) != value:
            logging.warning(
                "%s is %s in %s; the flags say %s, which is written.",
                *(name, messages.short(found[name]), folder),
                messages.short(value),
            )
        found[name] = value
    if found.get("do_lower_case") is not None:
        found.setdefault("strip_accents", found["do_lower_case"])
    _check_description(options, source, found)
    return found


def _told_by_weights(source: checkpoints.Source) -> dict[str, Any]:
    if name_tables.TOKEN_CLASSIFICATION in source.architectures:
        return {"task": model_folder.TAGGING}
    if _OUTPUTS in source.variables:
        if source.variables[_OUTPUTS][0] != (1,):
            return {}
        return {
            "task": model_folder.CLASSIFICATION,
            "problem_type": task_lib.REGRESSION,
            "labels": [],
        }
    heads = _TASK_OF_HEAD.items()
    return next(({"task": t} for n, t in heads if n in source.variables), {})


def _told_by_flags(options: Options) -> dict[str, Any]:
    names = ("task", "max_seq_length", "version_2_with_negative")
    told = {name: getattr(options, name) for name in (*names, "do_lower_case")}
    if options.do_lower_case is not None:
        tokenization.validate_case_matches_checkpoint(
            options.do_lower_case, options.input
        )
    if options.task_name is not None:
        told["task"] = options.task or model_folder.CLASSIFICATION
        told["name"] = options.task_name
        if options.labels is None:
            info = glue.find_dataset(options.task_name)
            told["name"] = info.name
            told["problem_type"] = info.label_set.problem_type
            told["labels"] = list(info.label_set.names)
    if options.labels is not None:
        told["labels"] = list(options.labels)
        if options.task != model_folder.TAGGING:
            told["problem_type"] = task_lib.SINGLE_LABEL
    return {name: value for name, value in told.items() if value is not None}


def _check_description(
    options: Options, source: checkpoints.Source, found: Mapping[str, Any]
) -> None:
    """Asks for entries that neither the folder nor a flag says, by name."""
    num_outputs = 0
    if _OUTPUTS in source.variables:
        (num_outputs,) = source.variables[_OUTPUTS][0]
    if num_outputs > 1 and len(found.get("labels", [])) not in (0, num_outputs):
        raise ValueError(
            f"The model has {num_outputs} outputs; got the labels "
            f"{messages.listed(found['labels'])}."
        )
    # Hugging Face's folders need no more than they have.
    if (
        options.output_format != checkpoints.RELEASE
        or source.kind == huggingface.Reader.kind
    ):
        return
    needed: tuple[str, ...] = _NEEDED.get(found.get("task", ""), ())
    if num_outputs and "task" not in found:
        needed = ("task", "labels", "max_seq_length")
    missing = [name for name in needed if name not in found]
    if missing:
        raise ValueError(
            f"{source.origin} does not say how it is used. Pass "
            f"{', '.join(f'--{name}' for name in missing)} of its training"
            + (
                " (--task_name of GLUE has labels)"
                if "labels" in missing
                else ""
            )
            + ". They are written to task.json."
        )


# ---------------------------------------------------------------- The output


def _write_huggingface(folder: str, model: _Model) -> None:
    """Writes weights, `config.json` and `tokenizer_config.json`."""
    _check_is_theirs(model)
    weights = {
        name: value
        for name, value in model.variables.items()
        if not checkpoints.is_training_state(name, model.variables)
    }
    others = huggingface.write(
        folder, weights, model.config.num_hidden_layers, model.architectures
    )
    if others:
        logging.warning(
            "%d variables are not written, because Hugging Face's model has "
            "none of these names: %s.",
            len(others),
            messages.names(others),
        )
    pad_token_id = 0
    if model.vocab_file is None:
        logging.warning(
            "There is no vocabulary next to --input and no --vocab_file: the "
            "folder will have no tokenizer."
        )
    else:
        vocab = tokenization.load_vocab(model.vocab_file)
        pad_token_id = vocab.get("[PAD]", 0)
        if "do_lower_case" not in model.description:
            raise ValueError(
                "It is unknown whether the model reads lower-cased text: pass "
                "--do_lower_case or --nodo_lower_case."
            )
        _write_json(
            folder,
            huggingface_config.TOKENIZER,
            huggingface_config.tokenizer(
                do_lower_case=model.description["do_lower_case"],
                strip_accents=model.description["strip_accents"],
                model_max_length=model.config.max_position_embeddings,
            ),
        )
    labels = dict(model.description)
    if _OUTPUTS in weights:
        labels["labels"] = _label_names(
            len(weights[_OUTPUTS]), labels.get("labels", [])
        )
    _write_json(
        folder,
        huggingface_config.CONFIG,
        huggingface_config.from_release(
            model.config.to_dict(), model.architectures, labels, pad_token_id
        ),
    )


def _write_card(options: Options, folder: str, model: _Model) -> None:
    name = os.path.basename(os.path.abspath(options.output))
    origin = config_lib.folder_of(options.input)
    text = model_card.text_of(origin, name, model.description)
    with writing.whole_file(os.path.join(folder, model_card.FILE)) as file:
        file.write(text)


def _check_is_theirs(model: _Model) -> None:
    if any(name.startswith(_BILSTM) for name in model.variables):
        raise ValueError(
            "The model has a BiLSTM below its output layer (--bilstm_head), "
            "which Hugging Face's models do not support."
        )
    if model.description.get("attention") == training_flags.CAUSAL:
        raise ValueError(
            "The model was trained from left to right, which Hugging Face's "
            "BERT does not support."
        )


def _label_names(num_labels: int, names: list[str]) -> list[str]:
    if num_labels > 1 and not names:
        logging.warning(
            "The names of the %d labels are unknown: they are written as "
            "LABEL_0, LABEL_1, ... Pass --labels to name them.",
            num_labels,
        )
    return huggingface_config.label_names(num_labels, names)


def _write_json(folder: str, name: str, value: Mapping[str, Any]) -> None:
    with writing.whole_file(os.path.join(folder, name)) as file:
        file.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    program.start(Options, convert)
