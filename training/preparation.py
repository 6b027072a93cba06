"""What a fine-tuning run stands on: checked options, sizes, text, devices."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Protocol

import tensorflow as tf

from commands import flags
from modeling import config as config_lib
from training import (
    ablations,
    option_checks,
    records,
    runtime,
    workers,
)
from training import flags as training_flags


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

    options: training_flags.FineTuningOptions
    config: config_lib.BertConfig
    text: Mapping[str, Any]
    vocab_size: int
    strategy: tf.distribute.Strategy

    @property
    def needs_held_out(self) -> bool:
        """Whether held-out data are scored, at the end or before."""
        return option_checks.needs_held_out(self.options)

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
    options: training_flags.FineTuningOptions,
    tokenizer: Tokenizer,
    config: config_lib.BertConfig,
) -> Setup:
    """Looks at the checkpoints there are, and chooses devices.

    Args:
        options: of the run, as `option_checks.check_task` allows them.
        tokenizer: of its text.
        config: the sizes of the model.

    Raises:
        ValueError: the options do not fit to the checkpoints or the devices;
            workers do not share the folder of the run.
    """
    ablations.check_checkpoints(options)
    strategy = _prepare_devices(options)
    workers.check_shared(workers.Communicator(strategy), options.output_dir)
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


def _prepare_devices(
    options: training_flags.FineTuningOptions,
) -> tf.distribute.Strategy:
    return runtime.prepare(
        flags.narrow(runtime.DeviceOptions, options),
        precision=options.precision,
        batch_sizes={
            field.name: getattr(options, field.name)
            for field in dataclasses.fields(options)
            if field.name.endswith("_batch_size")
        },
        output_dir=options.output_dir,
    )
