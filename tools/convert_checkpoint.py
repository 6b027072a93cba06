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
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from commands import flags, program
from files import messages, paths, run_files, writing
from modeling import checkpoints, huggingface, huggingface_config, name_tables
from modeling import config as config_lib
from tasks import task as task_lib
from tasks.classification import glue
from training import flags as training_flags
from training import model_folder, run_record, sidecars
from vocab import tokenization

_WEIGHTS = "bert_model.ckpt"  # Source: the names of the released files.
_BILSTM = "bilstm/"
_OUTPUTS = "output_bias"
_RELEASE = "release"
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

_PIPELINE = {
    model_folder.PRETRAINING: "fill-mask",
    model_folder.CLASSIFICATION: "text-classification",
    model_folder.QUESTION_ANSWERING: "question-answering",
    model_folder.TAGGING: "token-classification",
    model_folder.MULTIPLE_CHOICE: "multiple-choice",
}
_RESULTS = "_results.txt"
_COUNTS = ("global_step", "loss")  # Lines of the results that are no scores.
_DATA_FLAGS = ("task_name", "data_dir", "input_file", "train_file")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `tools.convert_checkpoint`; see --help."""

    input: flags.Path = flags.Group.FILES.required(
        "Checkpoint: prefix, .index file, Hugging Face folder, or a folder "
        "with one of them."
    )
    output: flags.Path = flags.Group.FILES.required("New folder for the model.")
    output_format: str = flags.Group.FILES.required(
        "Format of the output.", choices=(_RELEASE, "huggingface")
    )
    bert_config_file: flags.Path | None = flags.Group.MODEL.optional(
        "JSON file with the sizes of the model; by default that next to the "
        "input."
    )
    strip_optimizer: bool = flags.Group.MODEL.switch(
        "Omit the moments of the optimizer and the step; Hugging Face's format "
        "has neither."
    )
    vocab_file: flags.Path | None = flags.Group.TEXT.optional(
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


def convert(options: Options) -> None:
    """Reads a model and writes it into a new folder.

    Raises:
        OSError: a file is missing, or cannot be read or written.
        ValueError: the input is broken, unsupported, or contradicts its
            configuration, vocabulary or description; the description lacks an
            entry; or the output is not a new local folder.
    """
    if paths.is_remote(options.output) or os.path.lexists(options.output):
        raise ValueError(
            f"--output must be a new local folder; got {options.output}."
        )
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
        config.check_checkpoint(source.origin, source.num_attention_heads)
        checkpoints.check(source, config.encoder_shapes(), [name_tables.POOLER])
        description = _describe(options, source, vocab_file)
        variables = {
            name: source.read(name)
            for name in source.variables
            if not options.strip_optimizer
            or not checkpoints.is_training_state(name, source.variables)
        }
    for name, value in variables.items():
        if value.dtype.name in ("float16", "bfloat16"):
            variables[name] = value.astype(np.float32)
    with writing.whole_folder(options.output) as made:
        os.makedirs(made)
        if options.output_format == _RELEASE:
            checkpoints.save(os.path.join(made, _WEIGHTS), variables)
            # As in an `output_dir`, so that scripts can use the folder as one.
            with writing.whole_file(os.path.join(made, "checkpoint")) as out:
                out.write(f'model_checkpoint_path: "{_WEIGHTS}"\n')
        else:
            _write_huggingface(made, variables, config, description, vocab_file)
            name = os.path.basename(os.path.abspath(options.output))
            with writing.whole_file(os.path.join(made, "README.md")) as out:
                out.write(model_card(folder, name, description))
        model_folder.write(made, config.to_dict(), description, vocab_file)
    logging.info(
        "Wrote %s: %d variables of %s (%s format).",
        options.output,
        len(variables),
        source.origin,
        source.kind,
    )


# -------------------------------------------------------------- The description


def _describe(
    options: Options, source: checkpoints.Source, vocab_file: str | None
) -> dict[str, Any]:
    """Joins what the folder of the input says and what the flags say."""
    found = _told_by_weights(source)
    found |= model_folder.read(config_lib.folder_of(options.input))
    if vocab_file is not None:
        vocab = tokenization.load_vocab(vocab_file)
        found["vocab_sha256"] = sidecars.vocab_sha256(vocab)
        if "do_lower_case" not in found:
            shown = model_folder.is_vocabulary_lower_case(vocab_file)
            found |= {} if shown is None else {"do_lower_case": shown}
    told = _told_by_flags(options)
    for change in messages.changes(found, told).values():
        logging.warning("%s, as the flags say.", change)
    found |= told
    if "do_lower_case" in found:
        found.setdefault("strip_accents", found["do_lower_case"])
    _check_description(options, source, found)
    return found


def _told_by_weights(source: checkpoints.Source) -> dict[str, Any]:
    if name_tables.TOKEN_CLASSIFICATION in source.architectures:
        return {"task": model_folder.TAGGING}
    if source.variables.get(_OUTPUTS, (None,))[0] == (1,):
        return {
            "task": model_folder.CLASSIFICATION,
            "problem_type": task_lib.REGRESSION,
            "labels": [],
        }
    heads = _TASK_OF_HEAD.items()
    return next(({"task": t} for n, t in heads if n in source.variables), {})


def _told_by_flags(options: Options) -> dict[str, Any]:
    told: dict[str, Any] = {
        "task": options.task,
        "name": options.task_name,
        "max_seq_length": options.max_seq_length,
        "version_2_with_negative": options.version_2_with_negative,
        "do_lower_case": options.do_lower_case,
    }
    if options.task_name is not None:
        told["task"] = options.task or model_folder.CLASSIFICATION
    if options.labels is not None:
        told["labels"] = list(options.labels)
        if options.task != model_folder.TAGGING:
            told["problem_type"] = task_lib.SINGLE_LABEL
    elif options.task_name is not None:
        info = glue.find_dataset(options.task_name)
        told["name"] = info.name
        told["problem_type"] = info.label_set.problem_type
        told["labels"] = list(info.label_set.names)
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
        options.output_format != _RELEASE
        or source.kind == huggingface.Reader.kind
    ):
        return
    needed = _NEEDED.get(found.get("task", ""), ())
    if num_outputs and "task" not in found:
        needed = ("task", "labels", "max_seq_length")
    missing = [f"--{name}" for name in needed if name not in found]
    if missing:
        raise ValueError(
            f"{source.origin} does not say what it was trained for. Pass "
            f"{', '.join(missing)} of its training, for task.json; a "
            "--task_name of GLUE implies task and labels."
        )


# ---------------------------------------------------------------- The output


def _write_huggingface(
    folder: str,
    variables: Mapping[str, np.ndarray],
    config: config_lib.BertConfig,
    description: Mapping[str, Any],
    vocab_file: str | None,
) -> None:
    """Writes weights, `config.json` and `tokenizer_config.json`."""
    if description.get("attention") == training_flags.CAUSAL or any(
        name.startswith(_BILSTM) for name in variables
    ):
        raise ValueError(
            "Hugging Face's BERT supports neither models trained from left to "
            "right nor a BiLSTM (--bilstm_head)."
        )
    is_tagger = description.get("task") == model_folder.TAGGING
    hint = name_tables.TOKEN_CLASSIFICATION if is_tagger else None
    architectures = name_tables.architectures(variables, hint)
    weights = {
        name: value
        for name, value in variables.items()
        if not checkpoints.is_training_state(name, variables)
    }
    others = huggingface.write(
        folder, weights, config.num_hidden_layers, architectures
    )
    if others:
        logging.warning(
            "%d variables are not written, because Hugging Face's model has "
            "none of these names: %s.",
            len(others),
            messages.names(others),
        )
    pad_token_id = 0
    if vocab_file is not None:
        pad_token_id = tokenization.load_vocab(vocab_file).get("[PAD]", 0)
        if "do_lower_case" not in description:
            raise ValueError(
                "It is unknown whether the model reads lower-cased text: pass "
                "--do_lower_case or --nodo_lower_case."
            )
        writing.write_json(
            os.path.join(folder, huggingface_config.TOKENIZER),
            huggingface_config.tokenizer(
                do_lower_case=description["do_lower_case"],
                strip_accents=description["strip_accents"],
                model_max_length=config.max_position_embeddings,
            ),
        )
    labels = dict(description)
    if _OUTPUTS in weights:
        names = labels.get("labels", [])
        labels["labels"] = _label_names(len(weights[_OUTPUTS]), names)
    writing.write_json(
        os.path.join(folder, huggingface_config.CONFIG),
        huggingface_config.from_release(
            config.to_dict(), architectures, labels, pad_token_id
        ),
    )


def _label_names(num_labels: int, names: Sequence[str]) -> list[str]:
    if num_labels > 1 and not names:
        logging.warning(
            "The names of the %d labels are unknown: they are written as "
            "LABEL_0, LABEL_1, ... Pass --labels to name them.",
            num_labels,
        )
    return huggingface_config.label_names(num_labels, names)


# -------------------------------------------------------------- The model card


def model_card(folder: str, name: str, description: Mapping[str, Any]) -> str:
    """Formats the README.md of a folder, in the format of the hub's cards.

    Args:
        folder: of the run: its `run.jsonl` and result files are read.
        name: of the model.
        description: the entries of its `task.json`.

    Returns:
        The text: metadata in YAML, then the training and the scores.
    """
    run = _training(folder)
    used = run.get("flags", {})
    base = (used.get("init_checkpoint") or "").rstrip("/")
    task = description.get("task", "no known task").replace("_", " ")
    parts = [
        _metadata(description, base),
        f"# {name}\n\nA BERT model for {task}.",
    ]
    if settings := [
        f"| {key} | `{json.dumps(value, ensure_ascii=False)}` |"
        for key, value in description.items()
        if key != "vocab_sha256"
    ]:
        parts.append("\n".join(["| setting | value |", "|---|---|", *settings]))
    if run:
        data = [f"`{k}={used[k]}`" for k in _DATA_FLAGS if used.get(k)]
        parts.append(
            "## Training\n\n"
            f"- Base model: {f'`{base}`' if base else 'none, from scratch'}\n"
            f"- Data: {', '.join(data)}\n"
            f"- Commit: {run.get('commit') or 'unknown'}\n\n"
            f"```\n{shlex.join(map(str, run.get('command', [])))}\n```"
        )
    if rows := [
        f"| {os.path.basename(path).removesuffix(_RESULTS)} | {metric} | "
        f"{value} |"
        for path in paths.matching(folder, f"*{_RESULTS}")
        for metric, value in run_files.read_results(path).items()
        if metric not in _COUNTS
    ]:
        head = ["## Scores\n", "| data | metric | value |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts) + "\n"


def _training(folder: str) -> dict[str, Any]:
    """Returns the start of the latest training that `run.jsonl` records."""
    starts = [told for told in run_record.read(folder) if "flags" in told]
    trained = [told for told in starts if told["flags"].get("do_train")]
    return [{}, *starts, *trained][-1]


def _metadata(description: Mapping[str, Any], base: str) -> str:
    found = ["library_name: transformers", "tags:", "- bert"]
    tag = _PIPELINE.get(description.get("task", ""))
    if tag:
        found.append(f"pipeline_tag: {tag}")
    if base:
        folder = os.path.dirname(base) if ".ckpt" in base else base
        found.append(f"base_model: {json.dumps(os.path.basename(folder))}")
    return "\n".join(["---", *found, "---"])


if __name__ == "__main__":
    program.start(Options, convert)
