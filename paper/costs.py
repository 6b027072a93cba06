"""Estimates of the time of a command, from its arithmetic.

An estimate is the number of operations of a run divided by the rate of a
machine; it is good to a factor of two. The runner corrects it by the time of
the jobs that are done.
"""

import dataclasses

from modeling import config as config_lib
from modeling import costs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine that runs the commands.

    Attributes:
        name: for people.
        operations_per_second: of training, in practice.
        start_seconds: of any command: compiling, reading, writing.
        text_bytes_per_second: of making records.
    """

    name: str
    operations_per_second: float
    start_seconds: float = 40.0
    text_bytes_per_second: float = 4e6  # Source: docs/corpora.md, one core.


# Source: NVIDIA/DeepLearningExamples, BERT for TensorFlow 2, one A100-80GB with
# 16-bit arithmetic: BERT-Large at 485.6 sequences of 128 a second, 96.5 of 512.
# Each is 1.2e14 and 1.0e14 of the operations counted here.
GPU = Machine(name="one A100 with mixed precision", operations_per_second=1e14)
# Measured: two layers of 128 and 8,192 words, batches of 256 sequences of 32,
# 1,470 sequences a second: 1.6e11; fine-tuning on sentences of 13 tokens, where
# starting operations is most of the work, 4e10.
CORE = Machine(name="one core of a laptop", operations_per_second=1e11)


def pretraining_seconds(
    machine: Machine,
    config: config_lib.BertConfig,
    shape: costs.Shape,
    num_sequences: float,
) -> float:
    """Estimates the seconds of pre-training, without its start.

    Args:
        machine: that runs it.
        config: of the network.
        shape: of a sequence.
        num_sequences: steps times the batch.
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
        machine: that runs it.
        config: of the network.
        num_trained: sequences, times epochs.
        num_scored: sequences, without training.
        length: of a sequence on average, padding included.
    """
    passes = costs.PRODUCTS_PER_FORWARD * num_trained + num_scored
    work = passes * costs.encoder_flops(config, length)
    return machine.start_seconds + work / machine.operations_per_second


def hours(seconds: float) -> str:
    """Writes a duration for people."""
    minutes = seconds / 60
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 90:
        return f"{minutes:.0f} min"
    if minutes < 48 * 60:
        return f"{minutes / 60:.1f} h"
    return f"{minutes / 60 / 24:.1f} days"
