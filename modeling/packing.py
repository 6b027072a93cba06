"""Packing: texts of a batch share rows, which then have little padding.

Each shape of a batch is compiled, so the rows have few numbers and lengths.

Source: Krell et al. 2021, "Efficient Sequence Packing without
Cross-contamination". A token attends only to its own text, so the outputs are
those of the padded batch. They are computed for fewer tokens.
"""

import math
from collections.abc import Collection, Iterable

import numpy as np
from keras import ops

from modeling.tensor_types import Tensor

_MAX_ROW_COUNTS = 3  # Each number of rows is compiled.
# The largest number of rows is so many standard deviations above the mean.
_DEVIATIONS = 4


def padded_sizes(sizes: np.ndarray, most: int) -> list[int]:
    """Chooses few sizes to which batches are padded.

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
    return padded_sizes(
        np.array([*counts, max(rare, *counts)]), _MAX_ROW_COUNTS
    )


def pack(
    lengths: np.ndarray,
    row_length: int,
    num_parts: int = 1,
    row_counts: Collection[int] = (),
) -> np.ndarray:
    """Assigns the texts of a batch to rows.

    Each text, longest first, gets the first row with enough space (Johnson
    1973, "first-fit decreasing").

    Args:
        lengths: `[B]`, the tokens of each text, at most `row_length`.
        row_length: T, of the batch and of the rows.
        num_parts: the number of micro-batches, which are packed separately.
        row_counts: the numbers of rows that a micro-batch may have. The
            smallest sufficient one is used, and the missing rows are left
            empty; without one, there are as many rows as needed.

    Returns:
        `[num_parts * R, T]` int32: for each place the index of its token in the
        `[B / num_parts, T]` ids of its micro-batch, as a flat array; -1 for
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


class Packing:
    """The places of the tokens of a batch in packed rows.

    Args:
        packed: `[R, T]` int32, from `pack`.
        num_texts: B.

    Attributes:
        texts: `[R, T]` int32, the text of each place; -1 for padding.
        positions: `[R, T]` int32, the position of each place in its text.
        places: `[B, T]` int32, the place of each token, as a number in the flat
            rows; 0 for padding.
    """

    def __init__(self, packed: Tensor, num_texts: Tensor):
        length = packed.shape[1]
        is_token = packed >= 0
        self._tokens = ops.maximum(packed, 0)
        self.texts = ops.where(is_token, self._tokens // length, -1)
        self.positions = self._tokens % length
        # The places, from 1, added to a zero for each token. All padding is
        # added up in one element more.
        size = num_texts * length
        index = ops.where(is_token, self._tokens, size)
        index = ops.reshape(index, (-1, 1))
        numbers = ops.arange(1, ops.shape(index)[0] + 1, dtype="int32")
        numbers = ops.scatter(index, numbers, (size + 1,))[:size]
        numbers = ops.reshape(numbers, (num_texts, length))
        self._is_text = numbers > 0
        self.places = ops.maximum(numbers - 1, 0)

    def packed(self, ids: Tensor) -> Tensor:
        """Packs `[B, T]` ids to `[R, T]`; padding has the first of them."""
        return ops.take(ops.reshape(ids, (-1,)), self._tokens)

    def unpacked(self, hidden: Tensor) -> Tensor:
        """Unpacks `[..., D]`, the flat rows, to `[B, T, D]`; 0 for padding."""
        rows = ops.reshape(hidden, (-1, hidden.shape[-1]))
        taken = ops.take(rows, self.places, axis=0)
        return ops.where(self._is_text[..., None], taken, 0)
