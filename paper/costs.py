"""How long commands should take, from the arithmetic they do.

An estimate is the operations of a run divided by what a machine does in a
second; it is good to a factor of two. The runner corrects it by what the jobs
that are done have taken.
"""

import dataclasses

# Source: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", table
# 1: two operations for each weight and token forwards, twice that backwards.
_FORWARD = 2
_TRAINING = 6
# Compiling, reading, writing: what a command takes before and after.
_START_SECONDS = 40.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """A network, as far as its cost goes; F is 4 D.

    Attributes:
        num_layers: L.
        hidden_size: D.
        vocab_size: V.
    """

    num_layers: int
    hidden_size: int
    vocab_size: int

    def weights_per_token(self, length: int) -> float:
        """Counts the multiplications for a token in a sequence of a length."""
        transforms = 12 * self.hidden_size**2
        attention = 2 * length * self.hidden_size
        return self.num_layers * (transforms + attention)

    def weights_per_prediction(self) -> float:
        """Counts the multiplications for a predicted token."""
        return self.hidden_size * (self.hidden_size + self.vocab_size)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Machine:
    """What commands are run on.

    Attributes:
        name: for people.
        operations_per_second: of training, in practice.
        start_seconds: what any command takes.
        text_bytes_per_second: of making records.
    """

    name: str
    operations_per_second: float
    start_seconds: float = _START_SECONDS
    text_bytes_per_second: float = 4e6  # Source: docs/data.md, one core.


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
    size: Size,
    *,
    num_sequences: float,
    length: int,
    num_predictions: int,
) -> float:
    """Estimates pre-training.

    Args:
        machine: where.
        size: of the network.
        num_sequences: steps times the batch.
        length: T.
        num_predictions: P, predicted tokens of a sequence.
    """
    weights = length * size.weights_per_token(length)
    weights += num_predictions * size.weights_per_prediction()
    work = _TRAINING * weights * num_sequences
    return machine.start_seconds + work / machine.operations_per_second


def fine_tuning_seconds(
    machine: Machine,
    size: Size,
    *,
    num_trained: float,
    num_scored: float,
    length: float,
) -> float:
    """Estimates fine-tuning and scoring.

    Args:
        machine: where.
        size: of the network.
        num_trained: sequences, times epochs.
        num_scored: sequences, without training.
        length: of a sequence on average, padding included.
    """
    operations = _TRAINING * num_trained + _FORWARD * num_scored
    work = operations * length * size.weights_per_token(int(length))
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
