"""Batches of records, as a function of the step and never of iterator state.

The records form an endless stream, epoch after epoch, each epoch in an order
of its own that depends on the seed alone. Step k of a run with a global batch
of B takes places kB to kB + B - 1 of it, so a run resumes at any step without
reading what came before, and its batches do not depend on how many devices
share them.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from training import record_files, records

# Neighbouring records stay together in a block, and blocks in a window, so that
# reading stays within a part of the files that the operating system caches.
_RECORDS_PER_BLOCK = 64
_BLOCKS_PER_WINDOW = 2048
# Batches being read at the same time, and batches waiting to be used.
_READERS = 4
_PREFETCHED_BATCHES = 8


class RecordOrder:
    """The order of an endless stream of shuffled epochs.

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
        self._epoch = functools.lru_cache(maxsize=2)(self._epoch)
        self._window = functools.lru_cache(maxsize=4)(self._window)

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

    def _epoch(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns an epoch's order of blocks, and where its windows start."""
        rng = np.random.default_rng([self._seed, epoch])
        blocks = rng.permutation(self._num_blocks)
        sizes = np.minimum(
            self.num_records - blocks * _RECORDS_PER_BLOCK, _RECORDS_PER_BLOCK
        )
        ends = np.concatenate([[0], np.cumsum(sizes)])
        return blocks, ends[:-1][::_BLOCKS_PER_WINDOW]

    def _window(self, epoch: int, window: int) -> np.ndarray:
        blocks, _ = self._epoch(epoch)
        first = window * _BLOCKS_PER_WINDOW
        chosen = blocks[first : first + _BLOCKS_PER_WINDOW]
        members = (
            chosen[:, np.newaxis] * _RECORDS_PER_BLOCK
            + np.arange(_RECORDS_PER_BLOCK)
        ).ravel()
        members = members[members < self.num_records]
        rng = np.random.default_rng([self._seed, epoch, window])
        return rng.permutation(members)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSource:
    """Records and what they hold.

    Attributes:
        files: the record files, in order.
        features: what each record holds.
        vocab_size: no word id may reach it.
    """

    files: record_files.RecordFiles
    features: Sequence[records.Feature]
    vocab_size: int


class TrainingBatches:
    """The batches of a training run.

    Args:
        source: the records.
        batch_size: of the global batch, over all replicas.
        seed: of the order.
    """

    def __init__(self, source: RecordSource, *, batch_size: int, seed: int):
        self._source = source
        self._batch_size = batch_size
        self._order = RecordOrder(len(source.files), seed)

    def iterator(
        self, strategy: tf.distribute.Strategy, first_step: int, num_steps: int
    ):
        """Iterates over the batches of steps `first_step` to `num_steps - 1`.

        Returns:
            A distributed iterator over dicts of tensors; each replica gets
            `[batch_size / replicas, ...]`.
        """

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            rows = _RowsOfReplicas(context, self._batch_size)

            def read(element: np.ndarray) -> np.ndarray:
                step, first_row = rows.of(int(element))
                start = step * self._batch_size + first_row
                indices = self._order.indices(start, rows.per_replica)
                return _byte_strings(self._source.files.read(indices))

            elements = tf.data.Dataset.range(
                first_step * rows.local_replicas,
                num_steps * rows.local_replicas,
            )
            return _read_and_parse(
                elements, read, self._source, rows.per_replica
            )

        return iter(strategy.distribute_datasets_from_function(dataset))

    def describe(self, step: int) -> str:
        """Names the records of a step's batch, for an error message."""
        indices = self._order.indices(step * self._batch_size, self._batch_size)
        shown = ", ".join(self._source.files.name(i) for i in indices[:4])
        more = len(indices) - 4
        return f"{shown} and {more} more" if more > 0 else shown


def evaluation_dataset(
    source: RecordSource, *, batch_size: int, num_batches: int
) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
    """Makes batches of the records in file order.

    Args:
        source: the records.
        batch_size: of the global batch, over all replicas.
        num_batches: how many batches, starting over where the records end, as
            the release does; 0 for every record exactly once.

    Returns:
        What `strategy.distribute_datasets_from_function` takes: the dataset of
        one worker, whose elements are the batches of its replicas in turn,
        dicts of `[batch_size / replicas, ...]` tensors. `example_weights`,
        `[batch_size / replicas]` float32, is 0 for the rows that fill the last
        batch and 1 elsewhere.
    """
    num_records = len(source.files)
    once = num_batches == 0
    if once:
        num_batches = -(-num_records // batch_size)

    def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
        rows = _RowsOfReplicas(context, batch_size)

        def places_of(element: int) -> np.ndarray:
            batch, first_row = rows.of(element)
            start = batch * batch_size + first_row
            return np.arange(start, start + rows.per_replica)

        def read(element: np.ndarray) -> np.ndarray:
            indices = places_of(int(element)) % num_records
            return _byte_strings(source.files.read(indices))

        def weights(element: np.ndarray) -> np.ndarray:
            real = places_of(int(element)) < num_records
            return real.astype(np.float32) if once else np.ones_like(real, "f4")

        elements = tf.data.Dataset.range(num_batches * rows.local_replicas)
        batches = _read_and_parse(elements, read, source, rows.per_replica)
        weighted = elements.map(
            lambda element: tf.ensure_shape(
                tf.numpy_function(weights, [element], tf.float32),
                [rows.per_replica],
            )
        )
        return tf.data.Dataset.zip(batches, weighted).map(
            lambda batch, weight: {**batch, "example_weights": weight}
        )

    return dataset


class _RowsOfReplicas:
    """Which rows of a global batch each replica of a worker takes."""

    def __init__(self, context: tf.distribute.InputContext, batch_size: int):
        replicas = context.num_replicas_in_sync
        if batch_size % replicas:
            raise ValueError(
                "The batch size counts the whole batch and must be a multiple "
                f"of the number of replicas; got {batch_size} and {replicas}."
            )
        self.per_replica = batch_size // replicas
        self.local_replicas = replicas // context.num_input_pipelines
        self._first_replica = context.input_pipeline_id * self.local_replicas

    def of(self, element: int) -> tuple[int, int]:
        """Returns the batch and the first row of an element of a worker."""
        batch, local_replica = divmod(element, self.local_replicas)
        replica = self._first_replica + local_replica
        return batch, replica * self.per_replica


def _read_and_parse(elements, read, source, per_replica) -> tf.data.Dataset:
    def load(element):
        serialized = tf.numpy_function(read, [element], tf.string)
        serialized = tf.ensure_shape(serialized, [per_replica])
        batch = records.parse(serialized, source.features)
        # On a GPU an id out of range would read zeros in silence.
        tf.debugging.assert_less(
            batch["input_ids"],
            source.vocab_size,
            "A record holds a word id beyond the model's vocab_size.",
        )
        return batch

    return elements.map(
        load, num_parallel_calls=_READERS, deterministic=True
    ).prefetch(_PREFETCHED_BATCHES)


def _byte_strings(values: list[bytes]) -> np.ndarray:
    # An object array keeps the zero bytes at the end that "S" arrays drop.
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
