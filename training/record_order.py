"""Orders of the records in training.

The records form an infinite stream of epochs, each shuffled differently. The
order depends on the seed alone, never on the records read before.
"""

import abc
import functools

import numpy as np

# Consecutive records form a block, and blocks a window, so that reading stays
# within a part of the files that fits into the operating system's cache.
_RECORDS_PER_BLOCK = 64
_BLOCKS_PER_WINDOW = 2048
_BATCHES_PER_GROUP = 64
# NumPy pads a short list of seeds with zeros, so [seed, 3] and [seed, 3, 0]
# draw the same numbers: each use has a different number above zero.
_BLOCK_STREAM, _WINDOW_STREAM, _GROUP_STREAM = 1, 2, 3


class Order(abc.ABC):
    """The order in which steps take records."""

    @abc.abstractmethod
    def batch(self, step: int, batch_size: int) -> np.ndarray:
        """Lists the records of a step's global batch: `[batch_size]` int64."""


class Stream(Order):
    """An infinite stream of records, of which each step takes one batch."""

    @abc.abstractmethod
    def some(self, start: int, count: int) -> np.ndarray:
        """Lists at least one and at most `count` records from `start` on."""

    def indices(self, start: int, count: int) -> np.ndarray:
        """Lists the records at positions `start` to `start + count - 1`.

        Returns:
            `[count]` int64, the numbers of records in the files.
        """
        parts = [np.zeros(0, np.int64)]
        while count > 0:
            parts.append(self.some(start, count))
            start += len(parts[-1])
            count -= len(parts[-1])
        return np.concatenate(parts)

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        return self.indices(step * batch_size, batch_size)


class RecordOrder(Stream):
    """A stream of shuffled epochs.

    Blocks of 64 consecutive records are shuffled over all data, then single
    records within windows of 2,048 blocks. Up to 131,072 records fit into one
    window: all their orders are then equally likely.

    Args:
        num_records: the number of records of one epoch.
        seed: streams with the same seed are equal.
    """

    def __init__(self, num_records: int, seed: int):
        if num_records < 1:
            raise ValueError("There must be at least one record.")
        self.num_records = num_records
        self._seed = seed
        self._num_blocks = -(-num_records // _RECORDS_PER_BLOCK)
        # Cached per object: a batch may span two epochs, and readers prefetch.
        self._epoch = functools.lru_cache(maxsize=2)(self._make_epoch)
        self._window = functools.lru_cache(maxsize=4)(self._make_window)

    def some(self, start: int, count: int) -> np.ndarray:
        epoch, place = divmod(start, self.num_records)
        _, starts = self._epoch(epoch)
        window = int(np.searchsorted(starts, place, side="right")) - 1
        order = self._window(epoch, window)
        return order[place - starts[window] :][:count]

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


class BucketedOrder(Order):
    """A shuffled order in which the records of a batch have similar lengths.

    The stream is divided into groups of 64 batches. Each group is sorted by
    length and split into batches, which are then shuffled.

    Args:
        order: the stream.
        lengths: `[N]` integers, the length of every record.
        seed: of the order of batches within a group.
    """

    def __init__(self, order: Stream, lengths: np.ndarray, seed: int):
        self._order = order
        self._lengths = lengths
        self._seed = seed
        self._group = functools.lru_cache(maxsize=2)(self._make_group)

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        group, place = divmod(step, _BATCHES_PER_GROUP)
        return self._group(group, batch_size)[place]

    def _make_group(self, group: int, batch_size: int) -> np.ndarray:
        size = _BATCHES_PER_GROUP * batch_size
        members = self._order.indices(group * size, size)
        by_length = np.argsort(self._lengths[members], kind="stable")
        batches = members[by_length].reshape(_BATCHES_PER_GROUP, batch_size)
        rng = np.random.default_rng([self._seed, _GROUP_STREAM, group])
        return batches[rng.permutation(_BATCHES_PER_GROUP)]
