"""Exports a trained model for raw text as a SavedModel.

For example:

  python -m tools.export_model --model_dir=mrpc --export_dir=served/mrpc

`--model_dir` is the --output_dir of a training script; flags override its
settings. docs/serving.md lists the inputs and outputs of the models. For a
checkpoint without such a folder:

  python -m tools.export_model --task=embed --export_dir=served/bert \\
    --bert_config_file=bert_config.json --vocab_file=vocab.txt \\
    --init_checkpoint=bert_model.ckpt
"""

import dataclasses
import os
from typing import Any

from absl import logging

from commands import flags, program
from modeling import config as config_lib
from serving import run_folder
from tasks import features
from tasks.classification import sentence_pairs
from training import flags as training_flags
from training import model_files, records

_ANSWERS = flags.Heading("Answers")
_VECTORS = flags.Heading("Vectors")
_MASKS = flags.Heading("Masked words")
AUTO = "auto"
_SAVED_MODEL, _LITERT = "saved_model", "litert"
# Flags by the tasks that they are for.
_FLAGS = {
    (run_folder.CLASSIFY, run_folder.SCORE, run_folder.EMBED): (
        *("long_text", "window_stride"),
    ),
    (run_folder.ANSWER,): (
        *("doc_stride", "max_query_length", "max_answer_length"),
        *("n_best_size", "version_2_with_negative"),
        "null_score_diff_threshold",
    ),
    (run_folder.EMBED,): ("layers",),
    (run_folder.FILL_MASK,): ("top_k",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_flags.RunOptions):
    """The flags of this tool; None means the setting of the run's folder."""

    model_dir: str | None = flags.Group.FILES.optional(
        "Folder of a run: its --output_dir, or that of one of its trials."
    )
    task: str = flags.Group.FILES.flag(
        AUTO,
        "Task of the model; auto: that of its training.",
        choices=(AUTO, *run_folder.TASKS),
    )
    export_dir: str = flags.Group.FILES.required(
        "Folder for the model, which is written to EXPORT_DIR/VERSION. Servers "
        "use its last part as the model's name."
    )
    version: int = flags.Group.FILES.whole(
        1, "Version; servers use the highest."
    )
    format: str = flags.Group.FILES.flag(
        _SAVED_MODEL,
        "A SavedModel with text as its input; or only the network, with ids as "
        "its input, for LiteRT.",
        choices=(_SAVED_MODEL, _LITERT),
    )
    quantize: str | None = flags.Group.FILES.optional(
        "litert: store the matrices as 8-bit integers.",
        choices=("int8",),
    )
    init_checkpoint: str | None = flags.Group.MODEL.optional(
        "Weights other than those of --model_dir."
    )
    bert_config_file: str | None = flags.Group.MODEL.optional(
        "JSON file with the sizes of the model."
    )
    vocab_file: str | None = flags.Group.TEXT.optional(
        "Vocabulary of the model."
    )
    do_lower_case: bool | None = flags.Group.TEXT.optional(
        "Lower-case the text; True if the files of the folder do not show it."
    )
    max_seq_length: int | None = flags.Group.TEXT.optional(
        "Maximum number of word pieces of a sequence.", lower_bound=3
    )
    long_text: str | None = flags.Group.TEXT.optional(
        "classify, score, embed: the part of long texts that is kept.",
        choices=sentence_pairs.LONG_TEXT,
    )
    window_stride: int | None = flags.Group.TEXT.optional(
        "--long_text=windows: tokens between the starts of windows.",
        lower_bound=1,
    )
    doc_stride: int | None = _ANSWERS.optional(
        "answer: word pieces between the starts of windows.", lower_bound=1
    )
    max_query_length: int | None = _ANSWERS.optional(
        "answer: maximum word pieces of a question; others are truncated.",
        lower_bound=1,
    )
    max_answer_length: int | None = _ANSWERS.optional(
        "answer: maximum word pieces of an answer.", lower_bound=1
    )
    n_best_size: int | None = _ANSWERS.optional(
        "answer: candidate starts and ends per window, and listed answers.",
        lower_bound=1,
    )
    version_2_with_negative: bool | None = _ANSWERS.optional(
        "answer: some questions have no answer."
    )
    null_score_diff_threshold: float | None = _ANSWERS.optional(
        "answer: no answer above this difference of logits."
    )
    layers: str = _VECTORS.flag(
        "-1", "embed: layers, comma-separated; -1 for the highest."
    )
    top_k: int = _MASKS.count(5, "fill_mask: candidates for each [MASK].")


def run(options: Options) -> str:
    """Writes the model; returns the folder of its version.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the folder has no model, or one for another task; files
            are missing or do not fit together; a flag has no effect; the
            version exists; the converter is not installed.
    """
    if not (options.model_dir or options.init_checkpoint):
        raise ValueError(
            "Pass the folder of a run, --model_dir, or a checkpoint, "
            "--init_checkpoint; got neither."
        )
    if options.use_best_checkpoint and options.init_checkpoint:
        raise ValueError(
            "--use_best_checkpoint and --init_checkpoint both name weights; "
            "pass one of them."
        )
    if options.quantize and options.format == _SAVED_MODEL:
        raise ValueError(
            f"--quantize requires --format={_LITERT}: a SavedModel has no "
            "operations for 8-bit matrices."
        )
    from serving import exporting, models, networks

    target = os.path.join(options.export_dir, str(options.version))
    exporting.check_new(target)
    found = run_folder.find(
        options.model_dir,
        options.init_checkpoint,
        best=options.use_best_checkpoint,
    )
    task = options.task
    if task == AUTO:
        task = found.task
        logging.info("Task of %s: %s.", found.checkpoint, task)
    found.check_task(task)
    _check_flags(options, task)
    settings = _settings(options, found, task)
    stride, long_text = options.window_stride, settings.truncation.long_text
    if stride and long_text != sentence_pairs.WINDOWS:
        raise ValueError(
            "--window_stride is for --long_text=windows; got --long_text="
            f"{long_text}."
        )
    described = {
        "do_lower_case": settings.do_lower_case,
        "vocab_size": settings.config.vocab_size,
        "vocab_sha256": records.vocab_sha256(settings.tokenizer.vocab),
        "checkpoint": os.path.basename(found.checkpoint),
    }
    text = {name: described[name] for name in ("vocab_sha256", "do_lower_case")}
    if options.model_dir:
        model_files.check_text(options.model_dir, text)
    if options.init_checkpoint:
        folder = config_lib.folder_of(found.checkpoint)
        model_files.check_text(folder, text, settings.vocab_file)
        if task in ("classify", "score", "tag"):
            _check_labels(folder, settings.known_labels.to_dict())
    model = networks.load(task, settings)
    servable = models.servable(task, model, settings)
    converted = None
    if options.format != _SAVED_MODEL:
        converted = exporting.convert(task, model, settings, options.quantize)
    exporting.write(servable, target, settings.vocab_file, described, converted)
    logging.info("Wrote %s", target)
    return target


def _check_flags(options: Options, task: str) -> None:
    """Checks that no flag is given that has no effect on a task."""
    for tasks, names in _FLAGS.items():
        for name in names:
            is_given = getattr(options, name) != getattr(Options, name)
            if is_given and task not in tasks:
                raise ValueError(
                    f"--{name} is for --task={' or '.join(tasks)}; the task of "
                    f"this model is {task}."
                )
    if options.layers != Options.layers and options.format != _SAVED_MODEL:
        raise ValueError(
            f"--layers is for --format={_SAVED_MODEL}; got --format="
            f"{options.format}, whose vectors are those of the highest layer."
        )


def _settings(
    options: Options, found: run_folder.Model, task: str
) -> run_folder.Settings:
    """Returns the settings of the flags, else of the run, else the defaults."""
    is_text_only = task == run_folder.FILL_MASK
    if options.format != _SAVED_MODEL and is_text_only:
        raise ValueError(
            f"--format={options.format} requires a model whose only inputs "
            f"are word pieces; that of {found.checkpoint} also reads words "
            "or positions of masks. Export a SavedModel, or its encoder with "
            "--task=embed."
        )
    for name in ("bert_config_file", "vocab_file"):
        if getattr(options, name) is None and name not in found.values:
            which = f"{options.model_dir} does not contain it"
            if not options.model_dir:
                which = "or a folder that contains it as --model_dir"
            raise ValueError(f"--{name} must be given; {which}.")
    return dataclasses.replace(
        run_folder.settings_of(task, found, vars(options)),
        layers=tuple(features.parse_layers(options.layers)),
        top_k=options.top_k,
    )


def _check_labels(folder: str, labels: dict[str, Any]) -> None:
    """Compares the labels of the export with those of its checkpoint."""
    if model_files.output_order(folder, labels) is not None:
        raise ValueError(
            f"The outputs of the model in {folder} are "
            f"{model_files.labels(folder)}, and those of the export {labels}: "
            "the labels are in another order. Pass that folder as --model_dir."
        )


if __name__ == "__main__":
    program.start(Options, run)
