"""The order in which a run takes its records.

The records form an endless stream, epoch after epoch, each epoch in an order of
its own that depends on the seed alone, never on what was read before.
"""

import abc
import bisect
import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np

# Neighbouring records stay together in a block, and blocks in a window, so that
# reading stays within a part of the files that the operating system caches.
_RECORDS_PER_BLOCK = 64
_BLOCKS_PER_WINDOW = 2048
_BATCHES_PER_GROUP = 64
# NumPy fills a short list of seeds with zeros, so [seed, 3] and [seed, 3, 0]
# would draw the same numbers: each use has a number of its own, not zero.
_BLOCK_STREAM, _WINDOW_STREAM, _GROUP_STREAM = 1, 2, 3


class Order(Protocol):
    """The records of each step."""

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        """Lists the records of a step's global batch: `[batch_size]` int64."""


class Stream(abc.ABC):
    """An endless stream of records, which steps take batch after batch."""

    @abc.abstractmethod
    def indices(self, start: int, count: int) -> np.ndarray:
        """Lists the records at places `start` to `start + count - 1`.

        Returns:
            `[count]` int64, the places of records in the files.
        """

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        """Lists the records of a step's global batch: `[batch_size]` int64."""
        return self.indices(step * batch_size, batch_size)


class RecordOrder(Stream):
    """A stream of shuffled epochs.

    Blocks of 64 neighbouring records are shuffled over the whole data, then
    single records within windows of 2,048 blocks. Data of up to 131,072 records
    fill one window: every order of them is then as likely as any other.

    Args:
        num_records: the records of one epoch.
        seed: two streams of the same seed are equal.
    """

    def __init__(self, num_records: int, seed: int):
        if num_records < 1:
            raise ValueError("There must be at least one record.")
        self.num_records = num_records
        self._seed = seed
        self._num_blocks = -(-num_records // _RECORDS_PER_BLOCK)
        # Cached per object: two epochs meet in a batch, readers run ahead.
        self._epoch = functools.lru_cache(maxsize=2)(self._make_epoch)
        self._window = functools.lru_cache(maxsize=4)(self._make_window)

    def indices(self, start: int, count: int) -> np.ndarray:
        """Lists the records at places `start` to `start + count - 1`.

        Returns:
            `[count]` int64, each in `[0, num_records)`.
        """
        parts = []
        while count > 0:
            epoch, place = divmod(start, self.num_records)
            _, starts = self._epoch(epoch)
            window = int(np.searchsorted(starts, place, side="right")) - 1
            order = self._window(epoch, window)
            place -= starts[window]
            part = order[place : place + count]
            parts.append(part)
            start += len(part)
            count -= len(part)
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _make_epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns an epoch's order of blocks, and where its windows start."""
        rng = np.random.default_rng([self._seed, _BLOCK_STREAM, epoch])
        blocks = rng.permutation(self._num_blocks)
        sizes = np.minimum(
            self.num_records - blocks * _RECORDS_PER_BLOCK, _RECORDS_PER_BLOCK
        )
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return blocks, ends[:-1][::_BLOCKS_PER_WINDOW]

    def _make_window(self, epoch: int, window: int) -> np.ndarray:
        blocks, _ = self._epoch(epoch)
        first = window * _BLOCKS_PER_WINDOW
        chosen = blocks[first : first + _BLOCKS_PER_WINDOW]
        members = (
            chosen[:, np.newaxis] * _RECORDS_PER_BLOCK
            + np.arange(_RECORDS_PER_BLOCK)
        ).ravel()
        members = members[members < self.num_records]
        rng = np.random.default_rng([self._seed, _WINDOW_STREAM, epoch, window])
        return rng.permutation(members)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """Consecutive records that are trained on before those after them.

    Attributes:
        num_records: how many there are.
        num_taken: how many places of the stream they fill, over and over.
    """

    num_records: int
    num_taken: int


class ConsecutiveOrder(Stream):
    """A stream of parts one after the other, each shuffled in itself.

    Every part is a stream of shuffled epochs of its own, which ends where the
    next part begins; the last one never ends. A part without records is left
    out; a single part is a `RecordOrder`.

    Args:
        parts: in the order of the records.
        seed: of every part's stream.
    """

    def __init__(self, parts: Sequence[Part], seed: int):
        firsts = itertools.accumulate(
            (part.num_records for part in parts), initial=0
        )
        held = [
            (first, part)
            for first, part in zip(firsts, parts, strict=False)
            if part.num_records
        ]
        if not held:
            raise ValueError("There must be at least one record.")
        self._first_records = [first for first, _ in held]
        self._streams = [
            RecordOrder(part.num_records, seed) for _, part in held
        ]
        # Where in the whole stream each part starts; the last has no end.
        self._starts = list(
            itertools.accumulate(
                (part.num_taken for _, part in held[:-1]), initial=0
            )
        )

    def indices(self, start: int, count: int) -> np.ndarray:
        """Lists the records at places `start` to `start + count - 1`.

        Returns:
            `[count]` int64, each the place of a record among all parts.
        """
        found = []
        while count > 0:
            number = bisect.bisect_right(self._starts, start) - 1
            taken = count
            if number + 1 < len(self._starts):
                taken = min(count, self._starts[number + 1] - start)
            of_part = self._streams[number].indices(
                start - self._starts[number], taken
            )
            found.append(of_part + self._first_records[number])
            start += taken
            count -= taken
        return np.concatenate(found) if found else np.zeros(0, np.int64)


class BucketedOrder:
    """A shuffled order in which the records of a batch are of similar length.

    A stream is taken in groups of 64 batches; each group is sorted by length
    and cut into batches, which are then shuffled. So the last batches of one
    part of a `ConsecutiveOrder` mix with the next part's first.

    Args:
        order: the stream.
        lengths: `[N]` integers, the length of every record.
        seed: of the order of batches within a group.
    """

    def __init__(
        self,
        order: Stream,
        lengths: np.ndarray,
        seed: int,
    ):
        self._order = order
        self._lengths = lengths
        self._seed = seed
        self._group = functools.lru_cache(maxsize=2)(self._make_group)

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        """Lists the records of a step's global batch: `[batch_size]` int64."""
        group, place = divmod(step, _BATCHES_PER_GROUP)
        return self._group(group, batch_size)[place]

    def _make_group(self, group: int, batch_size: int) -> np.ndarray:
        size = _BATCHES_PER_GROUP * batch_size
        members = self._order.indices(group * size, size)
        by_length = np.argsort(self._lengths[members], kind="stable")
        batches = members[by_length].reshape(_BATCHES_PER_GROUP, batch_size)
        rng = np.random.default_rng([self._seed, _GROUP_STREAM, group])
        return batches[rng.permutation(_BATCHES_PER_GROUP)]
