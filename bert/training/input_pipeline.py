"""Batches of records for training and evaluation.

The batch of a step is a function of the step alone, and each replica reads its
rows of it. So a run resumes at any step at once, and its batches do not depend
on the number of devices.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from bert.records import reading, shuffling
from bert.training import options as training_options
from bert.training import padding

# Batches read in parallel, and prefetched batches.
_READERS = 4
_PREFETCHED_BATCHES = 8
# Records sampled to choose the numbers of packed rows.
_SAMPLED_RECORDS = 3200
_Batch: TypeAlias = dict[str, tf.Tensor]
_ROW_STEP = 16  # The length of packed rows is a multiple of this.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingBatches:
    """The batches of a training run, step by step.

    Attributes:
        source: the records.
        batch_size: the global batch size.
        seed: the seed of the order of the records, and of random draws for
            each row of each step.
        packing: packs the texts of each batch into rows; None keeps them apart.
    """

    source: reading.RecordSource
    batch_size: int
    seed: int
    packing: padding.RowPacking | None = None

    @functools.cached_property
    def order(self) -> shuffling.RecordOrder:
        """The records of each step."""
        return shuffling.RecordOrder(len(self.source.files), self.seed)

    def iterator(
        self, strategy: tf.distribute.Strategy, first_step: int, num_steps: int
    ) -> Iterator[dict[str, tf.Tensor]]:
        """Iterates over the batches of steps `first_step` to `num_steps - 1`.

        Returns:
            A distributed iterator over dicts of tensors; each replica gets
            `[batch_size / replicas, ...]`, of known size. There is an error
            after the last step.
        """

        def records_of(
            step: int, rows: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            numbers = step * self.batch_size + rows
            batch = self.order.batch(step, self.batch_size)
            return batch[rows], reading.row_seeds(self.seed, numbers)

        def prepare(batch: _Batch, step: tf.Tensor, rows: tf.Tensor) -> _Batch:
            del step, rows
            return self.packing.apply(batch) if self.packing else batch

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = _dataset(
                context,
                self.source,
                self.batch_size,
                range(first_step, num_steps),
                records_of,
                prepare,
            )
            # The end of a dataset may be a smaller batch: TensorFlow would not
            # know the number of rows with several workers, or with several
            # replicas and batches of unknown length.
            return batches.apply(
                tf.data.experimental.assert_cardinality(
                    tf.data.INFINITE_CARDINALITY
                )
            )

        return iter(_distributed(strategy, dataset))

    def describe(self, step: int) -> str:
        """Returns the names of a batch's records, for an error message."""
        indices = self.order.batch(step, self.batch_size)
        shown = ", ".join(self.source.files.name(i) for i in indices[:4])
        more = len(indices) - 4
        return f"{shown} and {more} more" if more > 0 else shown


def training_batches(
    source: reading.RecordSource,
    options: training_options.TrainingOptions,
    num_replicas: int,
    *,
    row_length: int = 0,
) -> TrainingBatches:
    """Orders the records of a run: all are shuffled in each epoch.

    Args:
        source: the records.
        options: the flags of the run; with `packing`, each micro-batch has one
            of a few numbers of rows.
        num_replicas: the number of replicas.
        row_length: of packed rows, at least that of the longest text; 0 to read
            the lengths of all records for it, once for all runs of a source.
    """
    batches = TrainingBatches(
        source=source,
        batch_size=options.train_batch_size,
        seed=options.random_seed,
    )
    if not options.packing:
        return batches
    # The batches of the first steps, of which each replica packs its part.
    num_steps = -(-_SAMPLED_RECORDS // batches.batch_size)
    sample = batches.order.batch(0, num_steps * batches.batch_size)
    if row_length:
        sampled = source.sequence_lengths_of(sample)
    else:
        sampled = source.sequence_lengths[sample]
        row_length = min(
            -(-int(source.lengths().max()) // _ROW_STEP) * _ROW_STEP,
            source.sequence_length,
        )
    num_parts = options.num_accumulation_steps
    return dataclasses.replace(
        batches,
        packing=padding.RowPacking(
            row_length=row_length,
            num_parts=num_parts,
            samples=np.split(sampled, num_steps * num_replicas),
        ),
    )


def evaluation_batches(
    strategy: tf.distribute.Strategy,
    source: reading.RecordSource,
    *,
    batch_size: int,
    num_batches: int = 0,
    order: np.ndarray | None = None,
    lengths: Sequence[int] = (),
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Creates batches of the records in file order.

    Args:
        strategy: its replicas receive the batches.
        source: the records.
        batch_size: the global batch size, rounded up to a multiple of the
            number of replicas.
        num_batches: the number of batches. As released: the records are
            repeated if necessary. 0 for every record exactly once.
        order: `[N]` int64, a permutation of the records to use instead of file
            order.
        lengths: ascending; removes the padding that all rows of a batch have,
            down to the least of these lengths that they fit. Empty to keep it.

    Returns:
        Dicts of tensors; each replica gets `[batch_size / replicas, ...]`.
        `example_weights`, `[batch_size / replicas]` float32, is 0 for the
        padding rows of the last batch and 1 elsewhere.
    """
    num_records = len(source.files)
    replicas = strategy.num_replicas_in_sync
    # The replicas have the same number of rows.
    batch_size = -(-batch_size // replicas) * replicas
    count = num_batches or -(-num_records // batch_size)

    def records_of(
        batch: int, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        indices = batch * batch_size + rows
        if num_batches:
            indices = indices % num_records
        # Rows that fill the last batch are as short as its shortest record.
        indices = indices.clip(max=num_records - 1)
        if order is not None:
            indices = order[indices]
        return indices, reading.evaluation_seeds(indices)

    def prepare(batch: _Batch, number: tf.Tensor, rows: tf.Tensor) -> _Batch:
        if lengths:
            batch = padding.trim_to_bucket(batch, lengths)
        is_real = number * batch_size + rows < num_records
        weights = tf.cast(rows >= 0 if num_batches else is_real, tf.float32)
        return {**batch, "example_weights": weights}

    return _distributed(
        strategy,
        lambda context: _dataset(
            context,
            source,
            batch_size,
            range(count),
            records_of,
            prepare,
        ),
    )


def _distributed(
    strategy: tf.distribute.Strategy,
    dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    if strategy.num_replicas_in_sync == 1:
        return dataset(tf.distribute.InputContext())
    return strategy.distribute_datasets_from_function(dataset)


def check_batch_size(
    options: training_options.TrainingOptions, num_replicas: int
) -> None:
    """Checks that a batch divides among replicas and micro-batches.

    Raises:
        ValueError: the batch size of the training is not divisible.
    """
    parts, size = options.num_accumulation_steps, options.train_batch_size
    if options.do_train and size % (num_replicas * parts):
        raise ValueError(
            "train_batch_size is the global batch size and must be a multiple "
            "of the number of replicas times --num_accumulation_steps; got "
            f"{size} and {num_replicas} times {parts}."
        )


def _dataset(
    context: tf.distribute.InputContext,
    source: reading.RecordSource,
    batch_size: int,
    steps: range,
    records_of: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]],
    prepare: Callable[[_Batch, tf.Tensor, tf.Tensor], _Batch],
) -> tf.data.Dataset:
    """Creates the batches of a worker's replicas in turn.

    `records_of` returns the records and seeds of rows `[b]` of a batch,
    and `prepare` pads or packs it.
    """
    replicas = context.num_replicas_in_sync
    per_replica = batch_size // replicas
    num_local = replicas // context.num_input_pipelines

    def rows_of(
        element: tf.Tensor | int, row_numbers: tf.Tensor | np.ndarray
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the batch of an element, and its rows for one replica.

        They are tensors if the arguments are, else Python's and NumPy's.
        """
        replica = context.input_pipeline_id * num_local + element % num_local
        return element // num_local, replica * per_replica + row_numbers

    def read(element: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        step, rows = rows_of(int(element), np.arange(per_replica))
        indices, seeds = records_of(step, rows)
        # An object array keeps trailing zero bytes, which "S" arrays drop.
        serialized = np.empty(len(indices), dtype=object)
        serialized[:] = source.files.read(indices)
        names = np.array(source.files.names(indices), dtype=object)
        return serialized, names, seeds

    # AutoGraph is switched off for the reason in `modeling.compilation`.
    @tf.autograph.experimental.do_not_convert
    def load(element: tf.Tensor) -> dict[str, tf.Tensor]:
        serialized, names, seeds = tf.numpy_function(
            read, [element], [tf.string, tf.string, tf.int64]
        )
        batch = source.parse(
            tf.ensure_shape(serialized, [per_replica]),
            tf.ensure_shape(names, [per_replica]),
            tf.ensure_shape(seeds, [per_replica, 2]),
        )
        step, rows = rows_of(element, tf.range(per_replica, dtype=tf.int64))
        return prepare(batch, step, rows)

    # There is no parameter to tune, and at its end a dataset may wait for its
    # autotuning thread for as long as it was in use.
    options = tf.data.Options()
    options.autotune.enabled = False
    return (
        tf.data.Dataset.range(steps.start * num_local, steps.stop * num_local)
        .map(load, num_parallel_calls=_READERS, deterministic=True)
        .prefetch(_PREFETCHED_BATCHES)
        .with_options(options)
    )
