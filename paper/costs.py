"""Estimates of the duration of commands.

An estimate is the number of operations of a run divided by the rate of a
machine, correct within a factor of two. The runner corrects it by the duration
of finished jobs.
"""

import dataclasses

from modeling import config as config_lib
from modeling import costs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine that runs the commands.

    Attributes:
        name: for display.
        operations_per_second: achieved rate of training.
        start_seconds: overhead of a command: compiling, reading, writing.
        text_bytes_per_second: rate of record creation.
    """

    name: str
    operations_per_second: float
    start_seconds: float = 40.0
    text_bytes_per_second: float = 4e6  # Source: docs/corpora.md, one core.


# Source: NVIDIA/DeepLearningExamples, BERT for TensorFlow 2, one A100-80GB with
# 16-bit arithmetic: BERT-Large at 485.6 sequences/s of 128 tokens and 96.5 of
# 512. These are 1.2e14 and 1.0e14 operations per second as counted here.
GPU = Machine(name="one A100 with mixed precision", operations_per_second=1e14)
# Measured: two layers of 128 and 8,192 words, batches of 256 sequences of 32,
# 1,470 sequences/s: 1.6e11; fine-tuning on sentences of 13 tokens, dominated by
# the overhead of operations: 4e10.
CORE = Machine(name="one core of a laptop", operations_per_second=1e11)


def pretraining_seconds(
    machine: Machine,
    config: config_lib.BertConfig,
    shape: costs.Shape,
    num_sequences: float,
) -> float:
    """Estimates the seconds of pre-training, without its start.

    Args:
        machine: the machine.
        config: of the network.
        shape: of a sequence.
        num_sequences: steps times batch size.
    """
    work = costs.training_flops(config, shape) * num_sequences
    return work / machine.operations_per_second


def fine_tuning_seconds(
    machine: Machine,
    config: config_lib.BertConfig,
    *,
    num_trained: float,
    num_scored: float,
    length: float,
) -> float:
    """Estimates the seconds of fine-tuning and evaluation.

    Args:
        machine: the machine.
        config: of the network.
        num_trained: training sequences, times epochs.
        num_scored: evaluated sequences.
        length: mean length of a sequence, including padding.
    """
    passes = costs.PRODUCTS_PER_FORWARD * num_trained + num_scored
    work = passes * costs.encoder_flops(config, length)
    return machine.start_seconds + work / machine.operations_per_second


def hours(seconds: float) -> str:
    """Formats a duration."""
    minutes = seconds / 60
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes:.0f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:.1f} h"
    return f"{minutes / 60 / 24:.1f} days"
