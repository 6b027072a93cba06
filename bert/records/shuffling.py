"""Order of the records in training."""

import functools

import numpy as np

# Consecutive records form a block, and blocks a window, so that reading stays
# within a part of the files that fits into the operating system's cache.
RECORDS_PER_BLOCK = 64
BLOCKS_PER_WINDOW = 2048
# The second seed of each kind of draw. NumPy pads a short list of seeds with
# zeros: the masks of row 1 of a run, drawn with [seed, 1], repeat the numbers
# of epoch 0's blocks, [seed, 1, 0]. They are used for different things, and
# existing runs resume with this order.
_BLOCK_STREAM, _WINDOW_STREAM = 1, 2


class RecordOrder:
    """The order of the records in training: a stream of shuffled epochs.

    It depends on the seed alone, never on the records read before.

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
        self._num_blocks = -(-num_records // RECORDS_PER_BLOCK)
        # Cached per object: a batch may span two epochs, and readers prefetch.
        self._epoch = functools.lru_cache(maxsize=2)(self._make_epoch)
        self._window = functools.lru_cache(maxsize=4)(self._make_window)

    def batch(self, step: int, batch_size: int) -> np.ndarray:
        """Lists the records of a step's global batch: `[batch_size]` int64."""
        parts = []
        start, end = step * batch_size, (step + 1) * batch_size
        while start < end:
            parts.append(self._some(start, end - start))
            start += len(parts[-1])
        return np.concatenate(parts)

    def _some(self, start: int, count: int) -> np.ndarray:
        """Lists at least one and at most `count` records from `start` on."""
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
            self.num_records - blocks * RECORDS_PER_BLOCK, RECORDS_PER_BLOCK
        )
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return blocks, ends[:-1][::BLOCKS_PER_WINDOW]

    def _make_window(self, epoch: int, window: int) -> np.ndarray:
        blocks, _ = self._epoch(epoch)
        first = window * BLOCKS_PER_WINDOW
        chosen = blocks[first : first + BLOCKS_PER_WINDOW]
        members = (
            chosen[:, np.newaxis] * RECORDS_PER_BLOCK
            + np.arange(RECORDS_PER_BLOCK)
        ).ravel()
        members = members[members < self.num_records]
        rng = np.random.default_rng([self._seed, _WINDOW_STREAM, epoch, window])
        return rng.permutation(members)
