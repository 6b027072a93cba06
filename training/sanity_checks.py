"""Sanity checks of pre-training: warnings about losses that look wrong.

Losses are judged against what the records themselves say: the entropy of the
masked word pieces is the loss of a model that knows how frequent each is and
nothing else. How far below it a run should be after so many steps comes from
runs of this project (`_BAND`).
"""

import bisect
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from training import input_pipeline, optimization

_MLM_LOSS = "masked_lm_loss"
_NSP_ACCURACY = "next_sentence_accuracy"

# Source: measured with this project. BERT-Tiny (2 layers, D = 128) on Wikipedia
# and novels, batches of 8,192 word pieces: 64 of 128, peak rates 8e-4 to 2e-3,
# with dropout and without; and 256 of 32, peak rate 1e-3, without dropout. For
# each number of reference steps the least and the greatest training loss, as
# a share of the entropy.
_BAND = (
    (250, 0.89, 0.98),
    (500, 0.80, 0.935),
    (1000, 0.62, 0.91),
    (1500, 0.61, 0.90),
    (2000, 0.60, 0.89),
    (2700, 0.60, 0.88),
)
_MARGIN = 0.04
# A reference step: what one step of those runs did at a rate of 8e-4.
_REFERENCE_RATE = 8e-4
_REFERENCE_PIECES = 128 * 64
# The slowest of the reference runs on sequences of 128 was at chance for 1,400.
_NSP_STEPS = 2500
_NSP_MARGIN = 0.01
_NSP_REPORTS = 5
# A trained BERT-Base has about 1.4 nats; below this something else is learned.
_IMPOSSIBLE_LOSS = 1.0
_IMPOSSIBLE_LOSS_OF_TRAINED = 0.3
_FEW_EPOCHS = 5
# Means over these many reports, so that one bad batch is no warning.
_SMOOTHED_REPORTS = 3
_RISE = 0.3  # Nats; the reference runs never rose by 0.1.
# Over the second half of the steps, while hardly more than frequency is known.
# Source: the slowest reference run fell by 1 % from step 3,000 to 6,000.
_LEAST_FALL = 0.003
_STILL_HIGH = 0.85
# Records that are looked at: in blocks, since remote stores read in a row.
_NUM_BLOCKS = 40
_RECORDS_PER_BLOCK = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordStatistics:
    """Shares and frequencies in a sample of records.

    Attributes:
        entropy: of the masked word pieces, in nats.
        random_next_share: of pairs with a random next, 0 to 1.
        num_records: in all.
        num_sampled: of them looked at.
    """

    entropy: float
    random_next_share: float
    num_records: int
    num_sampled: int

    @property
    def chance(self) -> float:
        """The next-sentence accuracy of always giving the same answer."""
        return max(self.random_next_share, 1 - self.random_next_share)


def measure(source: input_pipeline.Source) -> RecordStatistics:
    """Looks at records spread over the files: 10,240 of them, if there are."""
    total = len(source.files)
    starts = np.unique(
        np.linspace(
            0, max(total - _RECORDS_PER_BLOCK, 0), _NUM_BLOCKS, dtype=int
        )
    )
    counts = np.zeros(0, np.int64)
    num_random = num_sampled = end = 0
    for first in starts.tolist():
        # Blocks of few records overlap; none counts twice.
        places = np.arange(
            max(first, end), min(first + _RECORDS_PER_BLOCK, total)
        )
        if not len(places):
            continue
        end = int(places[-1]) + 1
        batch = source.parse(
            tf.constant(source.files.read(places)),
            tf.constant(input_pipeline.evaluation_seeds(places)),
        )
        ids = batch["masked_lm_ids"].numpy()[
            batch["masked_lm_weights"].numpy() > 0
        ]
        found = np.bincount(ids, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
        num_random += int(batch["next_sentence_labels"].numpy().sum())
        num_sampled += len(places)
    return RecordStatistics(
        entropy=entropy(counts),
        random_next_share=num_random / num_sampled,
        num_records=total,
        num_sampled=num_sampled,
    )


def entropy(counts: np.ndarray) -> float:
    """Estimates the entropy in nats of what was drawn so many times.

    With the correction of Miller (1955) for what a sample does not show.

    Args:
        counts: `[V]` integers.
    """
    counts = counts[counts > 0]
    if not len(counts):
        return 0.0
    shares = counts / counts.sum()
    plain = -float(np.sum(shares * np.log(shares)))
    return plain + (len(counts) - 1) / (2 * float(counts.sum()))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run sets out to do.

    Attributes:
        vocab_size: V.
        batch_size: examples in a step.
        pieces_per_step: word pieces in a step; of phases, the fewest.
        schedule: the learning rate.
        is_fresh: whether weights are random at step 0.
    """

    vocab_size: int
    batch_size: int
    pieces_per_step: int
    schedule: optimization.Schedule
    is_fresh: bool


class SanityChecks:
    """Checks every report of a run, and gives each warning once.

    Args:
        records: what the run learns from.
        plan: what it sets out to do.
    """

    def __init__(self, records: RecordStatistics, plan: Plan):
        self._records = records
        self._plan = plan
        self._steps: list[int] = []
        self._losses: list[float] = []
        self._accuracies: list[float] = []
        self._said: set[Callable] = set()

    def announce(self) -> list[str]:
        """Says what to expect of the run, as far as that is known."""
        records, plan = self._records, self._plan
        even = math.log(plan.vocab_size)
        lines = [
            f"Baselines, from {records.num_sampled:,} records: masked-LM loss "
            f"{even:.2f} (uniform guess),",
            f"  {records.entropy:.2f} (word-piece frequencies); "
            f"next-sentence accuracy {records.chance:.1%} (majority class).",
        ]
        if not plan.is_fresh:
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
        """Returns the first step that equals so many reference steps."""
        steps = range(self._plan.schedule.num_train_steps + 1)
        step = bisect.bisect_left(
            steps, wanted, key=lambda step: reference_steps(self._plan, step)
        )
        return step if step < len(steps) else None

    def __call__(self, step: int, values: Mapping[str, float]) -> Iterator[str]:
        """Takes a report.

        Args:
            step: the steps made.
            values: metrics by name.

        Yields:
            What looks wrong and was not said before.
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
        """The reference steps made so far."""
        return reference_steps(self._plan, self._steps[-1])

    @property
    def _is_warm(self) -> bool:
        return self._steps[-1] >= self._plan.schedule.num_warmup_steps

    def _impossible(self) -> str | None:
        epochs = (
            self._steps[-1] * self._plan.batch_size / self._records.num_records
        )
        least = _IMPOSSIBLE_LOSS_OF_TRAINED
        if self._plan.is_fresh:
            least = min(_IMPOSSIBLE_LOSS, self._records.entropy / 4)
        if self._loss >= least or epochs > _FEW_EPOCHS:
            return None
        return (
            f"the masked-LM loss, {self._loss:.2f}, is lower than a language "
            f"model gets after {epochs:.1f} passes over the records: the "
            "answers may be visible in the input, or the text says the same "
            "again and again. Look at examples and duplicates with "
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
            f"the masked-LM loss has risen to {self._loss:.2f} from "
            f"{lowest:.2f}: the learning rate is probably too high, or the "
            "warm-up too short. Start again with half the rate."
        )

    def _unfitting(self) -> str | None:
        if self._plan.is_fresh or self._loss < 0.95 * self._records.entropy:
            return None
        return (
            f"the masked-LM loss, {self._loss:.2f}, is that of a model that "
            "knows no more than how frequent words are "
            f"({self._records.entropy:.2f}), though the run began with trained "
            "weights: were the records made with the vocabulary and casing of "
            "--init_checkpoint, and does the load report at the start name "
            "cls/predictions as loaded?"
        )

    def _above_frequency(self) -> str | None:
        is_early = self._made < _BAND[0][0] or not self._is_warm
        high = self._records.entropy
        if not self._plan.is_fresh or is_early or self._loss <= high:
            return None
        return (
            f"the warm-up is over and the masked-LM loss, {self._loss:.2f}, is "
            "still above what the frequencies of word pieces alone give "
            f"({high:.2f}): look at the learning rate (far too high or low), "
            "the gradient norm, and the records (tools.inspect_data)."
        )

    def _above_band(self) -> str | None:
        made = self._made
        if not self._plan.is_fresh or made < _BAND[0][0] or not self._is_warm:
            return None
        steps, _, highs = zip(*_BAND, strict=True)
        high = float(np.interp(made, steps, highs)) * self._records.entropy
        limit = high + _MARGIN * self._records.entropy
        if not limit < self._loss <= self._records.entropy:
            return None
        return (
            f"the masked-LM loss, {self._loss:.2f}, should be below "
            f"{high:.2f} by now: so far BERT-Tiny came in every run of this "
            "project with as many word pieces and such a learning rate. "
            "Look at the rate, at initializer_range in the configuration "
            "(0.02 is small for a small model), and at the records "
            "(tools.inspect_data)."
        )

    def _not_falling(self) -> str | None:
        is_high = self._loss > _STILL_HIGH * self._records.entropy
        if not self._plan.is_fresh or not is_high or self._made < _BAND[2][0]:
            return None
        middle = int(np.searchsorted(self._steps, self._steps[-1] / 2))
        # A tenth of the run at either end, as the fall to be seen is small.
        count = max(_SMOOTHED_REPORTS, len(self._losses) // 10)
        if middle + count > len(self._losses) - count:
            return None
        before = float(np.mean(self._losses[middle : middle + count]))
        now = float(np.mean(self._losses[-count:]))
        if not abs(now - before) < _LEAST_FALL * before:
            return None
        return (
            f"the masked-LM loss has stopped falling: {before:.2f} at step "
            f"{self._steps[middle]:,}, {now:.2f} now. A model that "
            "learns falls far below what word frequencies give "
            f"({self._records.entropy:.2f}); look at the learning rate and at "
            "the gradient norm."
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
            f"next sentences are still told no better than by always giving "
            f"the same answer ({accuracy:.1%}, {chance:.1%}) while masked "
            "words are learned: are the sentences of a document in order, and "
            "is there an empty line between documents? Look with "
            "tools.inspect_data."
        )


def reference_steps(plan: Plan, step: int) -> float:
    """Counts the steps of the reference runs that a run's first steps equal.

    A step counts as no more than one of theirs, nor than its share of their
    word pieces, nor than its learning rate's share of theirs: the last of these
    is what Adam moves a weight by.
    """
    return min(
        step,
        step * plan.pieces_per_step / _REFERENCE_PIECES,
        plan.schedule.sum_of_rates(step) / _REFERENCE_RATE,
    )


def make(sources: Sequence[input_pipeline.Source], plan: Plan) -> SanityChecks:
    """Measures the records of a run's first phase and logs what to expect."""
    checks = SanityChecks(measure(sources[0]), plan)
    for line in checks.announce():
        logging.info("%s", line)
    return checks
