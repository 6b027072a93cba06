"""Checks of a run's options.

This module does not import TensorFlow, so that a wrong flag is reported without
waiting for it.
"""

import fnmatch
import glob
import math
import os
from collections.abc import Sequence
from typing import Any

from absl import logging

from files import json_text, paths, run_files, writing
from modeling import config as config_lib
from training import flags as training_flags
from training import phases as phases_lib
from training import reporting, run_card

# Files in --output_dir that a run replaces; input files must not match.
_WRITTEN = (
    *("*predictions*.*", "*_results*.*", "null_odds.json", "*_report*.*"),
    *("*_confusion_matrix*.png", "*_highest_loss*.jsonl"),
    *(reporting.METRICS_FILE, reporting.PLOT_FILE, "eval_checkpoints.jsonl"),
    *(run_files.TRIALS, run_files.LABELS),
    *(run_files.RUN_CARD, run_files.TOKENIZER),
)


def check_task(
    options: training_flags.FineTuningOptions, vocab_size: int
) -> config_lib.BertConfig:
    """Checks that a run's options are consistent and fit its model.

    Args:
        options: the options of the run.
        vocab_size: the size of its vocabulary: ids are below it.

    Returns:
        The configuration of the model.

    Raises:
        OSError: the configuration cannot be read, or the output folder cannot
            be written.
        ValueError: options contradict each other or the model.
    """
    if not (options.do_train or options.do_eval or options.do_predict):
        raise ValueError(
            "At least one of `do_train`, `do_eval` or `do_predict` must be "
            "True."
        )
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    config.check_length(options.max_seq_length)
    config.check_vocabulary(vocab_size, options.vocab_file)
    if options.freeze_layers > config.num_hidden_layers:
        raise ValueError(
            f"--freeze_layers must be at most {config.num_hidden_layers}, the "
            f"number of layers of the model; got {options.freeze_layers}."
        )
    for name in ("packing", "bucket_by_length"):
        if getattr(options, name) and training_flags.wants_tpu(options):
            raise ValueError(
                f"--{name} creates batches of different shapes; a TPU needs a "
                f"fixed shape. Pass one of --{name} and --use_tpu (or "
                "--distribution_strategy=tpu)."
            )
    if math.inf in [setting["num_train_epochs"] for setting in options.grid]:
        raise ValueError(
            "The number of epochs must be finite, because the learning rate "
            "falls to 0 over them. --early_stopping_patience ends a run before."
        )
    _check_evaluations(options)
    check_outputs(options)
    return config


def check_outputs(
    options: training_flags.FineTuningOptions
    | training_flags.PretrainingOptions,
) -> None:
    """Checks that a run can write its files and replaces none of its data."""
    writing.check_folder(options.output_dir)
    if paths.is_remote(options.output_dir):
        return
    data = run_card.data_files(options)
    names = {
        name
        for name in map(os.path.basename, data)
        if any(fnmatch.fnmatch(name, pattern) for pattern in _WRITTEN)
    }
    writing.check_files(
        [os.path.join(options.output_dir, name) for name in names], data
    )


def _check_evaluations(options: training_flags.FineTuningOptions) -> None:
    if options.eval_every_epoch and options.eval_every_steps:
        raise ValueError(
            "Pass one of --eval_every_epoch and --eval_every_steps; got both."
        )
    if options.early_stopping_patience and not options.evaluates_while_training:
        raise ValueError(
            "--early_stopping_patience counts evaluations; it needs "
            "--eval_every_epoch or --eval_every_steps."
        )
    if (
        options.use_best_checkpoint
        and options.do_train
        and not options.evaluates_while_training
    ):
        raise ValueError(
            "--use_best_checkpoint needs evaluations during training: "
            "--eval_every_epoch or --eval_every_steps."
        )
    if options.has_several_runs and not options.do_eval:
        raise ValueError(
            "Several runs (--num_trials, --learning_rates and the like) are "
            "compared on held-out data; pass --do_eval too."
        )


def check_features(options: Any) -> None:
    """Checks the options of a tagger with `--features`.

    Args:
        options: `TaggingOptions` with `AblationOptions`.

    Raises:
        ValueError: they contradict each other.
    """
    if not options.features:
        return
    if options.bilstm_head:
        raise ValueError(
            "--features has a BiLSTM of its own; pass no --bilstm_head with it."
        )
    if options.do_train and not options.init_checkpoint:
        raise ValueError(
            "--features are computed by the encoder of --init_checkpoint; "
            "--init_checkpoint must be given."
        )


def check_weights(
    options: training_flags.FineTuningOptions
    | training_flags.PretrainingOptions,
) -> None:
    """Checks that the weights that a run needs exist.

    Call this check last: for an existing path it imports TensorFlow, for which
    other errors need not wait.

    Raises:
        FileNotFoundError: `--init_checkpoint` does not exist.
        ValueError: its format is not supported; or the run does not train and
            there is no checkpoint to evaluate.
    """
    folder = options.output_dir
    if options.init_checkpoint:
        # Late, for a quick --help: this import takes 10 ms.
        from modeling import checkpoints

        checkpoints.find(options.init_checkpoint)
    elif not (options.do_train or paths.is_remote(folder)) and not glob.glob(
        f"{glob.escape(folder)}/**/*.index", recursive=True
    ):
        raise ValueError(
            f"There is nothing to evaluate: {folder} holds no checkpoint and "
            "--init_checkpoint is not given."
        )


def check_pretraining(
    options: training_flags.PretrainingOptions,
) -> tuple[config_lib.BertConfig, tuple[phases_lib.Phase, ...]]:
    """Checks the options of a pre-training run.

    Returns:
        The configuration of the model, and the phases of the run.

    Raises:
        OSError: the configuration cannot be read, the output folder cannot be
            written, or `--init_checkpoint` does not exist.
        ValueError: options contradict each other or the model, or no file
            matches.
    """
    if not options.do_train and not options.do_eval:
        raise ValueError(
            "At least one of `do_train` or `do_eval` must be True."
        )
    if options.do_train and options.num_train_steps < 1:
        raise ValueError(
            "--num_train_steps must be 1 or more; got "
            f"{options.num_train_steps}."
        )
    if options.keep_best_checkpoint and not options.eval_every_steps:
        raise ValueError("--keep_best_checkpoint needs --eval_every_steps.")
    if options.early_stopping_patience and not options.keep_best_checkpoint:
        raise ValueError(
            "--early_stopping_patience needs --keep_best_checkpoint."
        )
    if options.eval_all_checkpoints and not options.do_eval:
        raise ValueError("--eval_all_checkpoints needs --do_eval.")
    phases = phases_lib.parse(options)
    config = config_lib.BertConfig.from_json_file(
        options.bert_config_file, lambda: _vocab_size_of_records(phases[0])
    )
    for phase in phases:
        config.check_length(phase.options.max_seq_length)
    _check_record_files(options, phases)
    check_outputs(options)
    check_weights(options)
    return config, phases


def _vocab_size_of_records(phase: phases_lib.Phase) -> int | None:
    """Returns the vocabulary size of the records; None if not known."""
    sidecar = (
        phase.record_files[0].removesuffix(paths.SIDECAR_ENDING)
        + paths.SIDECAR_ENDING
    )
    if not paths.exists(sidecar):
        return None
    return json_text.read_object(sidecar).get("vocab_size")


def _check_record_files(
    options: training_flags.PretrainingOptions,
    phases: Sequence[phases_lib.Phase],
) -> None:
    """Checks that all names match files; warns about overlapping data."""
    trained_on = {
        _real(name) for phase in phases for name in phase.record_files
    }
    if not options.eval_input_file:
        return
    held_out = paths.expand(options.eval_input_file)
    both = {name for name in held_out if _real(name) in trained_on}
    if both and options.do_train:
        logging.warning(
            "--eval_input_file and --input_file overlap: %s. The evaluation "
            "uses records of the training data.",
            ", ".join(sorted(both)),
        )


def _real(path: str) -> str:
    """Returns the same spelling for each path of a file."""
    return path if paths.is_remote(path) else os.path.realpath(path)
