"""Checks of a run's options.

This module does not import TensorFlow, so that a wrong flag is reported without
waiting for it.
"""

import glob
import math
import os
from typing import Any

from absl import logging

from files import paths, writing
from modeling import config as config_lib
from training import flags as training_flags


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
    if options.packing and training_flags.wants_tpu(options):
        raise ValueError(
            "--packing creates batches of different shapes; a TPU needs a "
            "fixed shape. Pass one of --packing and --use_tpu (or "
            "--distribution_strategy=tpu)."
        )
    if math.inf in [setting["num_train_epochs"] for setting in options.grid]:
        raise ValueError(
            "The number of epochs must be finite, because the learning rate "
            "falls to 0 over them. --early_stopping_patience ends a run before."
        )
    _check_evaluations(options)
    writing.check_folder(options.output_dir)
    return config


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
) -> config_lib.BertConfig:
    """Checks the files of a pre-training run; returns the configuration.

    Raises:
        OSError: the configuration cannot be read, the output folder cannot be
            written, or `--init_checkpoint` does not exist.
        ValueError: the configuration is invalid, or no file matches.
    """
    trained_on = paths.expand(options.input_file)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    config.check_length(options.max_seq_length)
    held_out = paths.expand(options.eval_input_file or options.input_file)
    if options.eval_input_file and options.do_train:
        both = {*map(_real, held_out)} & {*map(_real, trained_on)}
        if both:
            logging.warning(
                "--eval_input_file and --input_file overlap: %s. The "
                "evaluation uses records of the training data.",
                ", ".join(sorted(both)),
            )
    writing.check_folder(options.output_dir)
    check_weights(options)
    return config


def _real(path: str) -> str:
    """Returns the same spelling for each path of a file."""
    return path if paths.is_remote(path) else os.path.realpath(path)
