"""Padding of batches: trimmed where all rows have it, or packed away.

Each shape of a batch is compiled, so the lengths and the numbers of rows are
few.
"""

import dataclasses
import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert.records import schema
from bert.tasks import objectives

_MAX_ROW_COUNTS = 3  # Each number of rows is compiled.
# Standard deviations of the largest number of rows above the mean.
_DEVIATIONS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowPacking:
    """The packing of the texts of a batch into shared rows.

    Attributes:
        row_length, num_parts: see `pack`.
        samples: `[B, ...]` each, the tokens of the texts of some batches.
    """

    row_length: int
    num_parts: int = 1
    samples: Sequence[np.ndarray] = dataclasses.field(default=(), compare=False)

    @functools.cached_property
    def row_counts(self) -> list[int]:
        """The ascending numbers of rows of a micro-batch; empty for any."""
        if not self.samples:
            return []
        return row_counts(self.samples, self.row_length, self.num_parts)

    def apply(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Truncates `[B, ..., T]` features; adds the rows that pack them."""
        batch = _truncated(batch, self.row_length)
        mask = batch["input_mask"]
        length, row_counts = mask.shape[-1], self.row_counts
        rows = tf.numpy_function(
            lambda lengths: pack(lengths, length, self.num_parts, row_counts),
            [tf.reshape(tf.reduce_sum(mask, axis=-1), [-1])],
            tf.int32,
        )
        rows = tf.ensure_shape(rows, [None, length])
        return {**batch, objectives.PACKED: rows}


def trim_to_bucket(
    batch: Mapping[str, tf.Tensor], lengths: Sequence[int]
) -> dict[str, tf.Tensor]:
    """Truncates `[B, ..., T]` features to the longest row.

    Args:
        batch: the features of records.
        lengths: ascending; the least one that the rows fit is their length.
    """
    longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], axis=-1))
    (bucket,) = tf.unstack(tf.searchsorted(lengths, longest[tf.newaxis]))
    return _truncated(batch, tf.constant(lengths)[bucket])


def _truncated(
    batch: Mapping[str, tf.Tensor], length: tf.Tensor | int
) -> dict[str, tf.Tensor]:
    return {
        name: value[..., :length] if name in schema.SEQUENCES else value
        for name, value in batch.items()
    }


def padded_sizes(sizes: np.ndarray, most: int) -> list[int]:
    """Chooses few sizes to which batches are padded.

    >>> padded_sizes(np.array([1, 2, 3, 4, 6, 8]), most=3)
    [4, 6, 8]

    Args:
        sizes: `[N]` positive integers, of the batches.
        most: the number of sizes to choose at most.

    Returns:
        Ascending sizes, the last of them the largest; between two of them are
        about equal shares of the sum of all sizes.
    """
    ordered = np.sort(sizes)
    ends = np.cumsum(ordered)
    shares = ends[-1] * np.arange(1, most + 1) / most
    return np.unique(ordered[np.searchsorted(ends, shares)]).tolist()


def row_counts(
    batches: Iterable[np.ndarray], row_length: int, num_parts: int
) -> list[int]:
    """Chooses the numbers of rows that packed batches are padded to.

    Args:
        batches: samples of batches, the tokens of their texts: `[B, ...]`.
        row_length, num_parts: see `pack`.

    Returns:
        Ascending numbers of rows of a micro-batch.
    """
    counts = [
        len(pack(lengths.ravel(), row_length, num_parts)) // num_parts
        for lengths in batches
    ]
    # A batch that the sample lacks may need more rows.
    rare = math.ceil(np.mean(counts) + _DEVIATIONS * np.std(counts))
    return padded_sizes(np.array([*counts, rare]), _MAX_ROW_COUNTS)


def pack(
    lengths: np.ndarray,
    row_length: int,
    num_parts: int = 1,
    row_counts: Collection[int] = (),
) -> np.ndarray:
    """Assigns the texts of a batch to rows.

    Each text, longest first, gets the first row with enough space (Johnson
    1973, "first-fit decreasing"). Three texts, of which the first and the last
    share a row:

    >>> pack(np.array([3, 2, 1]), row_length=4).tolist()
    [[0, 1, 2, 8], [4, 5, -1, -1]]

    Args:
        lengths: `[B]`, the tokens of each text, at most `row_length`.
        row_length: T, of the batch and of the rows.
        num_parts: the number of micro-batches, which are packed separately.
        row_counts: the numbers of rows that a micro-batch may have. The
            smallest sufficient one is used, and the missing rows are left
            empty; without one, there are as many rows as needed.

    Returns:
        `[num_parts * R, T]` int32: for each position the index of its token in
        the `[B / num_parts, T]` ids of its micro-batch, as a flat array; -1 for
        padding.
    """
    parts = [_pack(part, row_length) for part in np.split(lengths, num_parts)]
    most = max(map(len, parts))
    num_rows = min((n for n in row_counts if n >= most), default=most)
    packed = np.full((num_parts, num_rows, row_length), -1, np.int32)
    for part, rows in zip(packed, parts, strict=True):
        part[: len(rows)] = rows
    return packed.reshape(-1, row_length)


def _pack(lengths: np.ndarray, row_length: int) -> np.ndarray:
    rows = np.full((len(lengths), row_length), -1, np.int32)
    space = np.full(len(lengths), row_length)
    for text in np.argsort(-lengths, kind="stable"):
        length = lengths[text]
        row = int(np.argmax(space >= length))
        start = row_length - space[row]
        first = text * row_length
        rows[row, start : start + length] = np.arange(first, first + length)
        space[row] -= length
    return rows[space < row_length]
