"""What pre-training records say of the losses to expect."""

import dataclasses

import numpy as np
import tensorflow as tf

from training import input_pipeline

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
        batch = source.parse(tf.constant(source.files.read(places)))
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
