"""Checks of a run's options, and the phases of pre-training.

This module does not import TensorFlow, so that a wrong flag is reported without
waiting for it.
"""

import dataclasses
import fnmatch
import glob
import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from commands import flags
from files import json_text, paths, writing
from modeling import config as config_lib
from training import flags as training_flags
from training import run_card

# Files in --output_dir that a run replaces; input files must not match.
_WRITTEN = (
    *("*predictions*.*", "*_results*.*", "null_odds.json", "*_report*.*"),
    *("*_confusion_matrix*.png", "*_highest_loss*.jsonl"),
    *("metrics.jsonl", "trials.json", "eval_checkpoints.jsonl", "labels.json"),
    *("run_card.json", "tokenizer.json", "loss.png"),
)
_STEPS = "steps"
_COUNTS = (
    *("max_seq_length", "max_predictions_per_seq"),
    *("train_batch_size", "num_accumulation_steps"),
)
_KEYS = (_STEPS, "input_file", *_COUNTS)


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
    if options.bucket_by_length and training_flags.wants_tpu(options):
        raise ValueError(
            "--bucket_by_length creates batches of different lengths; a TPU "
            "needs a fixed length. Pass one of --bucket_by_length and "
            "--use_tpu (or --distribution_strategy=tpu)."
        )
    _check_evaluations(options)
    _check_outputs(options)
    return config


def _check_outputs(
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
    if options.is_ablated:
        raise ValueError(
            "--features needs an unmodified BERT encoder; pass neither "
            "--attention nor --bilstm_head with it."
        )
    if not options.init_checkpoint:
        raise ValueError(
            "--features are computed by the encoder of --init_checkpoint; "
            "--init_checkpoint must be given."
        )
    if options.freeze_layers:
        raise ValueError(
            "--freeze_layers is for fine-tuning; with --features all "
            "layers of the encoder are frozen. Pass one of them."
        )
    if options.recompute:
        raise ValueError(
            "--recompute is for fine-tuning; with --features no activation "
            "of the encoder is kept. Pass one of them."
        )


def check_weights(
    options: training_flags.FineTuningOptions
    | training_flags.PretrainingOptions,
) -> None:
    """Checks that the weights that a run needs exist.

    Call this check last: it imports TensorFlow to find a checkpoint.

    Raises:
        FileNotFoundError: `--init_checkpoint` does not exist.
        ValueError: its format is not supported; or the run does not train and
            there is no checkpoint to evaluate.
    """
    folder = options.output_dir
    if options.init_checkpoint:
        # Late: other errors need not wait for TensorFlow.
        from modeling import checkpoints

        checkpoints.find(options.init_checkpoint)
    elif not (options.do_train or paths.is_remote(folder)) and not glob.glob(
        f"{glob.escape(folder)}/**/*.index", recursive=True
    ):
        raise ValueError(
            f"There is nothing to evaluate: {folder} holds no checkpoint and "
            "--init_checkpoint is not given."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Consecutive steps of pre-training on the same records.

    Source: Devlin et al. 2019, App. A.2: 90% of the steps with sequences of 128
    tokens, the rest with 512, under one learning-rate schedule.

    Attributes:
        options: the options of the run, with those of the phase replaced.
        end: the step after the last one, counted from the start of the run.
    """

    options: training_flags.PretrainingOptions
    end: int


def phases_of(options: training_flags.PretrainingOptions) -> tuple[Phase, ...]:
    """Lists the phases of a run in order; one if `--phases` is not given.

    Raises:
        ValueError: `--phases` is malformed.
    """
    if not options.phases:
        return (Phase(options=options, end=options.num_train_steps),)
    parts = [
        _parse_phase(part) for part in options.phases.split(";") if part.strip()
    ]
    ends = _ends([part.pop(_STEPS, "") for part in parts], options)
    phases = []
    for part, end in zip(parts, ends, strict=True):
        changed: dict[str, Any] = {
            name: _count(name, value) if name in _COUNTS else value
            for name, value in part.items()
        }
        replaced = dataclasses.replace(options, **changed)
        if not replaced.input_file:
            raise ValueError(
                "Each of --phases needs an input_file of its own, or "
                "--input_file must be given; got a phase with neither."
            )
        phases.append(Phase(options=replaced, end=end))
    return tuple(phases)


def _parse_phase(text: str) -> dict[str, str]:
    """Parses `key=value key=value` with quotes as in a shell."""
    pairs = [word.partition("=") for word in shlex.split(text)]
    found = {key: value for key, _, value in pairs}
    wrong = [key for key, _, value in pairs if key not in _KEYS or not value]
    if wrong or len(found) < len(pairs):
        raise ValueError(
            "Each of --phases must be key=value pairs with the keys "
            f"{', '.join(_KEYS)}, each once; got {text.strip()!r}."
        )
    return found


def _ends(
    lengths: list[str], options: training_flags.PretrainingOptions
) -> list[int]:
    """Converts the lengths, such as `90%` or `9000`, to ends in steps."""
    total = options.num_train_steps
    try:
        if all(length.endswith("%") for length in lengths):
            shares = [float(length.removesuffix("%")) for length in lengths]
            sums = itertools.accumulate(shares)
            ends = [round(total * share / 100) for share in sums]
        else:
            ends = list(itertools.accumulate(map(int, lengths)))
    except ValueError:
        ends = []
    if not ends or ends[-1] != total or sorted({0, *ends}) != [0, *ends]:
        raise ValueError(
            "The `steps` of --phases must all be numbers that add up to "
            f"--num_train_steps ({total}), or percentages that add up to 100%, "
            f"each at least one step; got {', '.join(lengths) or 'none'}."
        )
    return ends


def _count(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(
            f"{name} in --phases must be a positive integer; got {value!r}."
        )
    return int(value)


def phases_identity(phases: tuple[Phase, ...]) -> Mapping[str, object]:
    """Returns the phases that a resumed run must keep; nothing for one."""
    if len(phases) == 1:
        return {}
    return {
        "phases": [
            [phase.end, *(getattr(phase.options, name) for name in _COUNTS[:3])]
            for phase in phases
        ]
    }


def check_pretraining(
    options: training_flags.PretrainingOptions,
) -> tuple[config_lib.BertConfig, tuple[Phase, ...]]:
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
    if options.keep_best_checkpoint and not options.eval_every_steps:
        raise ValueError("--keep_best_checkpoint needs --eval_every_steps.")
    if options.early_stopping_patience and not options.keep_best_checkpoint:
        raise ValueError(
            "--early_stopping_patience needs --keep_best_checkpoint."
        )
    if options.eval_all_checkpoints and not options.do_eval:
        raise ValueError("--eval_all_checkpoints needs --do_eval.")
    phases = phases_of(options)
    config = config_lib.BertConfig.from_json_file(
        options.bert_config_file, lambda: _vocab_size_of_records(phases[0])
    )
    for phase in phases:
        config.check_length(phase.options.max_seq_length)
    _check_record_files(options, phases)
    _check_outputs(options)
    check_weights(options)
    return config, phases


def _vocab_size_of_records(phase: Phase) -> int | None:
    """Returns the vocabulary size of the records; None if not known."""
    names = paths.expand(flags.given(phase.options.input_file, "input_file"))
    sidecar = names[0].removesuffix(paths.SIDECAR_ENDING) + paths.SIDECAR_ENDING
    if not paths.exists(sidecar):
        return None
    return json_text.read_object(sidecar).get("vocab_size")


def _check_record_files(
    options: training_flags.PretrainingOptions,
    phases: Sequence[Phase],
) -> None:
    """Checks that all names match files; warns about overlapping data."""
    trained_on = {
        name
        for phase in phases
        for name in paths.expand(
            flags.given(phase.options.input_file, "input_file")
        )
    }
    if not options.eval_input_file:
        return
    both = trained_on.intersection(paths.expand(options.eval_input_file))
    if both and options.do_train:
        logging.warning(
            "--eval_input_file and --input_file overlap: %s. The evaluation "
            "uses records of the training data.",
            ", ".join(sorted(both)),
        )
