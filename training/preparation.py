"""What a fine-tuning run stands on: checked options, sizes, text, devices."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from files import paths
from modeling import config as config_lib
from training import (
    ablations,
    fine_tuning_flags,
    records,
    runtime,
    sharing,
    starting,
    workers,
)
from training import flags as shared_flags


class Tokenizer(Protocol):
    """What a run must know of its tokenizer.

    Attributes:
        vocab: the id of every piece.
        vocab_size: the least `vocab_size` of a model that the ids fit into.
    """

    vocab: Mapping[str, int]
    vocab_size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """What all parts of a run share, its trials among them.

    Attributes:
        options: the flags; `output_dir` holds the records of a run, and the
            folders of several trials.
        config: the sizes of the model.
        text: how text is read, for the files beside models and records:
            `vocab_sha256` and `do_lower_case`.
        vocab_size: no id of the vocabulary reaches it.
        strategy: where variables live.
    """

    options: fine_tuning_flags.TaskOptions
    config: config_lib.BertConfig
    text: Mapping[str, Any]
    vocab_size: int
    strategy: tf.distribute.Strategy

    @property
    def needs_held_out(self) -> bool:
        """Whether held-out data are scored, at the end or before."""
        return self.options.do_eval or evaluates_while_training(self.options)

    def record_path(self, name: str) -> str:
        """Names the file of the records called `name`."""
        return os.path.join(self.options.output_dir, f"{name}.tf_record")

    def metadata(
        self, kind: str, made_from: Mapping[str, Any]
    ) -> records.Metadata:
        """Says what records depend on.

        Args:
            kind: of records.
            made_from: what they depend on beside text, as JSON has it.
        """
        return records.Metadata(
            kind=kind,
            max_seq_length=self.options.max_seq_length,
            vocab_size=self.vocab_size,
            num_records=0,  # Filled in when they are made.
            flags=made_from,
            **self.text,
        )


def prepare(
    options: fine_tuning_flags.TaskOptions, tokenizer: Tokenizer
) -> Setup:
    """Reads the sizes of the model, checks the options, chooses devices.

    Raises:
        OSError: the sizes cannot be read.
        ValueError: the options do not fit together, or not to the model or to
            the devices; workers do not share the folder of the run.
    """
    config = config_lib.BertConfig.from_json_file(
        options.bert_config_file, paths.open_to_read
    )
    check_options(options, config, tokenizer.vocab_size)
    ablations.check_checkpoints(options)
    strategy = _prepare_devices(options)
    sharing.check_shared(workers.Meeting(strategy), options.output_dir)
    return Setup(
        options=options,
        config=config,
        text={
            "vocab_sha256": records.vocab_sha256(tokenizer.vocab),
            "do_lower_case": options.do_lower_case,
        },
        vocab_size=tokenizer.vocab_size,
        strategy=strategy,
    )


def check_options(
    options: fine_tuning_flags.TaskOptions,
    config: config_lib.BertConfig,
    vocab_size: int,
) -> None:
    """Checks that a run's options fit together and to its model.

    Raises:
        ValueError: they do not.
    """
    if not (options.do_train or options.do_eval or options.do_predict):
        raise ValueError(
            "At least one of `do_train`, `do_eval` or `do_predict' must be "
            "True."
        )
    starting.check_length(options.max_seq_length, config)
    config.check_vocabulary(vocab_size, options.vocab_file)
    if options.freeze_layers > config.num_hidden_layers:
        raise ValueError(
            f"--freeze_layers must be at most {config.num_hidden_layers}, the "
            f"layers of the model; got {options.freeze_layers}."
        )
    if options.bucket_by_length and options.use_tpu:
        raise ValueError(
            "--bucket_by_length makes batches of different lengths; a TPU "
            "needs one length. Pass one of --bucket_by_length and --use_tpu."
        )
    _check_evaluations(options)


def _check_evaluations(options) -> None:
    if options.eval_every_epoch and options.eval_every_steps:
        raise ValueError(
            "Pass one of --eval_every_epoch and --eval_every_steps; got both."
        )
    if options.early_stopping_patience and not evaluates_while_training(
        options
    ):
        raise ValueError(
            "--early_stopping_patience counts evaluations: it needs "
            "--eval_every_epoch or --eval_every_steps."
        )
    if not isinstance(options, fine_tuning_flags.FineTuningOptions):
        return
    several = options.num_trials > 1 or len(options.learning_rates) > 1
    if several and not options.do_eval:
        raise ValueError(
            "Of several runs (--num_trials, --learning_rates) the one that "
            "does best on held-out data is wanted: pass --do_eval too."
        )


def evaluates_while_training(
    options: fine_tuning_flags.TaskOptions,
) -> bool:
    """Tells whether held-out data are looked at before the end."""
    return bool(
        options.do_train
        and (options.eval_every_epoch or options.eval_every_steps)
    )


def _prepare_devices(
    options: fine_tuning_flags.TaskOptions,
) -> tf.distribute.Strategy:
    return runtime.prepare(
        shared_flags.narrow(runtime.DeviceOptions, options),
        precision=options.precision,
        batch_sizes={
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(options)
            if field.name.endswith("_batch_size")
        },
        output_dir=options.output_dir,
    )
