"""Sanity checks of pre-training: warnings about implausible losses.

The baseline is the entropy of the masked word pieces in the records, which is
the loss of a unigram model. The expected loss after a number of steps, as a
share of the entropy, was measured in runs of this project (`_BAND`).
"""

import bisect
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from training import input_pipeline, optimization

_MLM_LOSS = "masked_lm_loss"
_NSP_ACCURACY = "next_sentence_accuracy"

# Source: measured with this project. BERT-Tiny (2 layers, D = 128) on Wikipedia
# and novels, batches of 8,192 word pieces: 64 of 128, peak rates 8e-4 to 2e-3,
# with and without dropout; and 256 of 32, peak rate 1e-3, without dropout. For
# each number of reference steps, the lowest and highest training loss as a
# share of the entropy.
_BAND = (
    (250, 0.89, 0.98),
    (500, 0.80, 0.935),
    (1000, 0.62, 0.91),
    (1500, 0.61, 0.90),
    (2000, 0.60, 0.89),
    (2700, 0.60, 0.88),
)
_MARGIN = 0.04
# A reference step is a step of those runs at a rate of 8e-4.
_REFERENCE_RATE = 8e-4
_REFERENCE_PIECES = 128 * 64
# The slowest of the reference runs on sequences of 128 was at chance for 1,400.
_NSP_STEPS = 2500
_NSP_MARGIN = 0.01
_NSP_REPORTS = 5
# A trained BERT-Base reaches about 1.4 nats; a lower loss suggests leakage.
_IMPOSSIBLE_LOSS = 1.0
_IMPOSSIBLE_LOSS_OF_TRAINED = 0.3
_FEW_EPOCHS = 5
# Reports to average, so that one bad batch causes no warning.
_SMOOTHED_REPORTS = 3
_RISE = 0.3  # Nats; the reference runs never rose by 0.1.
# The least relative fall over the second half of the steps, while the loss is
# near the entropy.
# Source: the slowest reference run fell by 1 % from step 3,000 to 6,000.
_LEAST_FALL = 0.003
_STILL_HIGH = 0.85
# The sample of records: in blocks, since remote storage reads sequentially.
_NUM_BLOCKS = 40
_RECORDS_PER_BLOCK = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStatistics:
    """Statistics of a sample of records.

    Attributes:
        entropy: of the masked word pieces, in nats.
        random_next_share: the share of pairs with a random next, 0 to 1.
        num_records: the number of all records.
        num_sampled: the number of records in the sample.
    """

    entropy: float
    random_next_share: float
    num_records: int
    num_sampled: int

    @property
    def chance(self) -> float:
        """The next-sentence accuracy of the majority class."""
        return max(self.random_next_share, 1 - self.random_next_share)


def measure(source: input_pipeline.Source) -> RecordStatistics:
    """Measures a sample of up to 10,240 records spread over the files."""
    total = len(source.files)
    starts = np.linspace(
        0, max(total - _RECORDS_PER_BLOCK, 0), _NUM_BLOCKS, dtype=int
    )
    # With few records the blocks overlap; each record counts once.
    sample = np.unique(starts[:, np.newaxis] + np.arange(_RECORDS_PER_BLOCK))
    sample = sample[sample < total]
    masked_ids, num_random = [], 0
    for start in range(0, len(sample), _RECORDS_PER_BLOCK):
        places = sample[start : start + _RECORDS_PER_BLOCK]
        batch = source.parse(
            tf.constant(source.files.read(places)),
            tf.constant(input_pipeline.evaluation_seeds(places)),
        )
        is_masked = batch["masked_lm_weights"].numpy() > 0
        masked_ids.append(batch["masked_lm_ids"].numpy()[is_masked])
        num_random += int(batch["next_sentence_labels"].numpy().sum())
    _, counts = np.unique(np.concatenate(masked_ids), return_counts=True)
    return RecordStatistics(
        entropy=entropy(counts),
        random_next_share=num_random / len(sample),
        num_records=total,
        num_sampled=len(sample),
    )


def entropy(counts: np.ndarray) -> float:
    """Estimates an entropy in nats, with the correction of Miller (1955).

    Args:
        counts: `[V]` integers, the number of times each value was drawn.
    """
    counts = counts[counts > 0]
    if not len(counts):
        return 0.0
    shares = counts / counts.sum()
    plain = -float(np.sum(shares * np.log(shares)))
    return plain + (len(counts) - 1) / (2 * float(counts.sum()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """The settings of a run that the checks depend on.

    Attributes:
        vocab_size: V.
        batch_size: examples in a step.
        pieces_per_step: word pieces in a step; the minimum over phases.
        schedule: the learning rate.
        is_fresh: whether weights are random at step 0.
        has_new_heads: whether those of the masked-LM head are.
    """

    vocab_size: int
    batch_size: int
    pieces_per_step: int
    schedule: optimization.Schedule
    is_fresh: bool
    has_new_heads: bool = False


class SanityChecks:
    """Checks of every report of a run; each warns at most once.

    Args:
        records: the statistics of the training records.
        run: the settings of the run.
    """

    def __init__(self, records: RecordStatistics, run: Run):
        self._records = records
        self._run = run
        self._steps: list[int] = []
        self._losses: list[float] = []
        self._accuracies: list[float] = []
        self._said: set[Callable] = set()

    def announce(self) -> list[str]:
        """Returns lines on the baselines and expected losses of the run."""
        records, run = self._records, self._run
        even = math.log(run.vocab_size)
        lines = [
            f"Baselines, from {records.num_sampled:,} records: masked-LM loss "
            f"{even:.2f} (uniform guess),",
            f"  {records.entropy:.2f} (word-piece frequencies); "
            f"next-sentence accuracy {records.chance:.1%} (majority class).",
        ]
        if not run.is_fresh:
            return lines
        frequent = records.entropy
        expected = [
            f"{low * frequent:.1f} to {high * frequent:.1f} after step {step:,}"
            for wanted, low, high in _BAND
            if wanted in (500, 1000, 2700)
            and (step := self._step_of(wanted)) is not None
        ]
        if expected:
            lines.append("Masked-LM loss of BERT-Tiny at this batch and rate:")
            lines.append(f"  {'; '.join(expected)}. Larger models fall lower.")
        return lines

    def _step_of(self, wanted: float) -> int | None:
        """Returns the first step that is worth `wanted` reference steps."""
        steps = range(self._run.schedule.num_train_steps + 1)
        step = bisect.bisect_left(
            steps, wanted, key=lambda step: reference_steps(self._run, step)
        )
        return step if step < len(steps) else None

    def __call__(self, step: int, values: Mapping[str, float]) -> Iterator[str]:
        """Checks a report.

        Args:
            step: the number of completed steps.
            values: metrics by name.

        Yields:
            New warnings.
        """
        if _MLM_LOSS not in values:
            return
        self._steps.append(step)
        self._losses.append(values[_MLM_LOSS])
        if _NSP_ACCURACY in values:
            self._accuracies.append(values[_NSP_ACCURACY])
        for check in (
            self._impossible,
            self._rising,
            self._unfitting,
            self._above_frequency,
            self._above_band,
            self._not_falling,
            self._next_sentences_at_chance,
        ):
            warning = None if check in self._said else check()
            if warning:
                self._said.add(check)
                yield warning

    @property
    def _loss(self) -> float:
        return float(np.mean(self._losses[-_SMOOTHED_REPORTS:]))

    @property
    def _made(self) -> float:
        """The number of reference steps completed so far."""
        return reference_steps(self._run, self._steps[-1])

    @property
    def _is_warm(self) -> bool:
        return self._steps[-1] >= self._run.schedule.num_warmup_steps

    def _impossible(self) -> str | None:
        epochs = (
            self._steps[-1] * self._run.batch_size / self._records.num_records
        )
        least = _IMPOSSIBLE_LOSS_OF_TRAINED
        if self._run.is_fresh:
            least = min(_IMPOSSIBLE_LOSS, self._records.entropy / 4)
        if self._loss >= least or epochs > _FEW_EPOCHS:
            return None
        return (
            f"the masked-LM loss, {self._loss:.2f}, is implausibly low after "
            f"{epochs:.1f} epochs: the targets may be visible in the input, or "
            "the text may repeat itself. Inspect examples and duplicates with "
            "python -m tools.inspect_data --record_file=..."
        )

    def _rising(self) -> str | None:
        count = _SMOOTHED_REPORTS
        if len(self._losses) < 3 * count:
            return None
        means = np.convolve(self._losses, np.ones(count) / count, "valid")
        lowest = float(means[:-count].min())
        if self._loss <= lowest + _RISE:
            return None
        return (
            f"the masked-LM loss has risen from {lowest:.2f} to "
            f"{self._loss:.2f}: the learning rate is probably too high, or the "
            "warm-up too short. Start again with half the rate."
        )

    def _unfitting(self) -> str | None:
        has_random_weights = self._run.is_fresh or self._run.has_new_heads
        if has_random_weights or self._loss < 0.95 * self._records.entropy:
            return None
        return (
            f"the masked-LM loss, {self._loss:.2f}, is no better than that of "
            f"word-piece frequencies ({self._records.entropy:.2f}), although "
            "the run started from trained weights. Check that the records were "
            "created with the vocabulary and casing of --init_checkpoint, and "
            "that the load report at the start lists cls/predictions as loaded."
        )

    def _above_frequency(self) -> str | None:
        is_early = self._made < _BAND[0][0] or not self._is_warm
        high = self._records.entropy
        if not self._run.is_fresh or is_early or self._loss <= high:
            return None
        return (
            f"after the warm-up, the masked-LM loss, {self._loss:.2f}, is "
            f"still above that of word-piece frequencies ({high:.2f}). Check "
            "the learning rate (far too high or low), the gradient norm, and "
            "the records (tools.inspect_data)."
        )

    def _above_band(self) -> str | None:
        made = self._made
        if not self._run.is_fresh or made < _BAND[0][0] or not self._is_warm:
            return None
        steps, _, highs = zip(*_BAND, strict=True)
        high = float(np.interp(made, steps, highs)) * self._records.entropy
        limit = high + _MARGIN * self._records.entropy
        if not limit < self._loss <= self._records.entropy:
            return None
        return (
            f"the masked-LM loss, {self._loss:.2f}, is above {high:.2f}, the "
            "highest of this project's BERT-Tiny runs after as many word "
            "pieces at a similar learning rate. Check the rate, "
            "initializer_range in the configuration (0.02 is small for a small "
            "model), and the records (tools.inspect_data)."
        )

    def _not_falling(self) -> str | None:
        is_high = self._loss > _STILL_HIGH * self._records.entropy
        if not self._run.is_fresh or not is_high or self._made < _BAND[2][0]:
            return None
        middle = int(np.searchsorted(self._steps, self._steps[-1] / 2))
        # Means over a tenth of the run, since the expected fall is small.
        count = max(_SMOOTHED_REPORTS, len(self._losses) // 10)
        if middle + count > len(self._losses) - count:
            return None
        before = float(np.mean(self._losses[middle : middle + count]))
        now = float(np.mean(self._losses[-count:]))
        if not abs(now - before) < _LEAST_FALL * before:
            return None
        return (
            f"the masked-LM loss has stopped falling: {before:.2f} at step "
            f"{self._steps[middle]:,}, {now:.2f} now. A model that learns "
            "falls far below the loss of word-piece frequencies "
            f"({self._records.entropy:.2f}). Check the learning rate and the "
            "gradient norm."
        )

    def _next_sentences_at_chance(self) -> str | None:
        count = max(_NSP_REPORTS, len(self._accuracies) // 4)
        recent = self._accuracies[-count:]
        if len(recent) < _NSP_REPORTS or self._made < _NSP_STEPS:
            return None
        accuracy, chance = float(np.mean(recent)), self._records.chance
        has_fallen = self._loss < 0.95 * self._records.entropy
        if not has_fallen or accuracy > chance + _NSP_MARGIN or chance > 0.95:
            return None
        return (
            f"the next-sentence accuracy, {accuracy:.1%}, is no better than "
            f"that of the majority class ({chance:.1%}), although the "
            "masked-LM loss falls. Check with tools.inspect_data that the "
            "sentences of a document are in order, and that empty lines "
            "separate documents."
        )


def reference_steps(run: Run, step: int) -> float:
    """Converts the first steps of a run to steps of the reference runs.

    A step is worth at most one reference step, at most its share of the word
    pieces, and at most its share of the learning rate, to which Adam's updates
    are proportional.
    """
    return min(
        step,
        step * run.pieces_per_step / _REFERENCE_PIECES,
        run.schedule.sum_of_rates(step) / _REFERENCE_RATE,
    )
