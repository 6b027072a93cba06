"""Batches of records for training and evaluation.

The batch of a step is a function of the step alone, and each replica reads its
rows of it. So a run resumes at any step at once, and its batches do not depend
on the number of devices.
"""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert.records import record_checks, record_files, record_order, records
from bert.training import dynamic_masking, padding
from bert.training import options as training_options

# Batches read in parallel, and prefetched batches.
_READERS = 4
_PREFETCHED_BATCHES = 8
# An error of a Python function within TensorFlow follows its traceback.
_OF_PYTHON = re.compile(
    r"\n(?:ValueError|OSError): (.+?)\n+\t \[\[\{\{node PyFunc", re.DOTALL
)
# An error of `tf.io.parse_example` names the record.
_OF_RECORD = re.compile(r"Name: (.+), ((?:Key|Feature): .+)")
# The numbers of packed rows are chosen from about so many records.
_SAMPLED_RECORDS = 3200
_ROW_STEP = 16  # The length of packed rows is a multiple of this.


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordSource:
    """Records of sequences, and the parser of their batches.

    Attributes:
        files: the record files, in order.
        features: the features of each record.
        vocab_size: token ids must be below it.
        type_vocab_size: segment ids must be below it; None: not checked.
        masking: the dynamic masking of unmasked records.
        lengths_to_pad_to: ascending; truncate the padding common to all rows of
            a batch, to the least of these lengths that the rows fit. Empty to
            keep it.
        packed_length: pack the texts of a batch into rows of this length, at
            least that of the longest text; 0 to keep them apart.
        num_parts: the number of micro-batches, which are packed separately.
        packed_rows: the numbers of rows that a packed micro-batch should have.
    """

    files: record_files.RecordFiles
    features: Sequence[records.Feature]
    vocab_size: int
    type_vocab_size: int | None = None
    masking: dynamic_masking.Masking | None = None
    lengths_to_pad_to: Sequence[int] = ()
    packed_length: int = 0
    num_parts: int = 1
    packed_rows: Sequence[int] = ()

    def read(
        self, indices: Sequence[int] | np.ndarray
    ) -> dict[str, np.ndarray]:
        """Reads a batch of `[B]` records, masked as in an evaluation.

        Raises:
            ValueError: a record does not fit; names it.
        """
        with reading_errors(), tf.device("CPU:0"):
            batch = self.parse(
                tf.constant(self.files.read(indices)),
                tf.constant(self.files.names(indices)),
                tf.constant(evaluation_seeds(np.asarray(indices))),
            )
            return {name: value.numpy() for name, value in batch.items()}

    def limits(self) -> dict[str, int]:
        """Returns the number of values that each kind of id may have."""
        shapes = {feature.name: feature.shape for feature in self.features}
        limits = {
            "input_ids": self.vocab_size,
            "segment_ids": self.type_vocab_size,
            "masked_lm_positions": shapes["input_ids"][-1],
            "masked_lm_ids": self.vocab_size,
            "next_sentence_labels": 2,
        }
        return {name: limit for name, limit in limits.items() if limit}

    def parse(
        self,
        serialized: tf.Tensor,
        names: tf.Tensor,
        seeds: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Parses `[B]` records to a batch of tensors.

        Args:
            serialized: the records.
            names: of the records, for error messages.
            seeds: `[B, 2]` int64, the seeds of the masks of each record; may be
                None without dynamic masking.
        """
        batch = records.parse(serialized, self.features, names)
        record_checks.check_batch(batch, self.limits(), names)
        if self.masking is not None:
            batch = self.masking.apply(batch, seeds)
        if self.packed_length:
            return padding.in_shared_rows(
                batch, self.packed_length, self.num_parts, self.packed_rows
            )
        if self.lengths_to_pad_to:
            return padding.without_shared(batch, self.lengths_to_pad_to)
        return batch

    def lengths(self) -> np.ndarray:
        """Counts the tokens of every record: `[N]` int64.

        For a record of several sequences it is the greatest count.
        """
        counts = self.sequence_lengths()
        return counts.reshape(len(counts), -1).max(axis=1)

    def sequence_lengths(self, indices: np.ndarray | None = None) -> np.ndarray:
        """Counts the tokens of each sequence: `[N]` or `[N, C]` int64.

        Args:
            indices: the records; None for all, in file order.
        """
        return np.concatenate(
            [
                mask.sum(axis=-1, dtype=np.int64)
                for mask in self._scan("input_mask", indices)
            ]
        )

    def values(self, name: str) -> np.ndarray:
        """Reads a feature of all records: `[N, *shape]`."""
        return np.concatenate([*self._scan(name)])

    def _scan(
        self, name: str, indices: np.ndarray | None = None
    ) -> Iterator[np.ndarray]:
        (feature,) = (f for f in self.features if f.name == name)
        with reading_errors():
            for batch in records.scan(self.files, [feature], indices):
                yield batch[name]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingBatches:
    """The batches of a training run, step by step.

    Attributes:
        source: the records.
        batch_size: the global batch size.
        seed: the seed of the order of the records, and of random draws for
            each row of each step.
    """

    source: RecordSource
    batch_size: int
    seed: int

    @functools.cached_property
    def order(self) -> record_order.RecordOrder:
        """The records of each step."""
        return record_order.RecordOrder(len(self.source.files), self.seed)

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
            return batch[rows], _seeds(self.seed, numbers)

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            batches = _dataset(
                context,
                self.source,
                self.batch_size,
                range(first_step, num_steps),
                records_of,
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
    source: RecordSource,
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
            all records for it.
    """
    batches = TrainingBatches(
        source=source,
        batch_size=options.train_batch_size,
        seed=options.random_seed,
    )
    if not options.packing:
        return batches
    if not row_length:
        row_length = -(-int(source.lengths().max()) // _ROW_STEP) * _ROW_STEP
    source = dataclasses.replace(
        source,
        packed_length=row_length,
        num_parts=options.num_accumulation_steps,
    )
    # The batches of the first steps, of which each replica packs its part.
    num_steps = -(-_SAMPLED_RECORDS // batches.batch_size)
    sampled = source.sequence_lengths(
        batches.order.batch(0, num_steps * batches.batch_size)
    )
    packed_rows = padding.row_counts(
        np.split(sampled, num_steps * num_replicas),
        row_length,
        source.num_parts,
    )
    return dataclasses.replace(
        batches, source=dataclasses.replace(source, packed_rows=packed_rows)
    )


def evaluation_batches(
    strategy: tf.distribute.Strategy,
    source: RecordSource,
    *,
    batch_size: int,
    num_batches: int = 0,
    order: np.ndarray | None = None,
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
        return indices, evaluation_seeds(indices)

    def weights(batch: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        is_real = batch * batch_size + rows < num_records
        return tf.cast(rows >= 0 if num_batches else is_real, tf.float32)

    return _distributed(
        strategy,
        lambda context: _dataset(
            context, source, batch_size, range(count), records_of, weights
        ),
    )


def _distributed(
    strategy: tf.distribute.Strategy,
    dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    if strategy.num_replicas_in_sync == 1:
        return dataset(tf.distribute.InputContext())
    return strategy.distribute_datasets_from_function(dataset)


@contextlib.contextmanager
def reading_errors() -> Iterator[None]:
    """Replaces the error of TensorFlow for a record that cannot be read.

    Raises:
        ValueError: with the message of `record_files` or `record_checks` alone;
            or the name of a record that does not fit, and the reason.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if damage := _OF_PYTHON.search(error.message):
            raise ValueError(damage[1]) from error
        if misfit := _OF_RECORD.search(error.message):
            name, problem = misfit.groups()
            raise ValueError(
                f"{name} does not fit this run: {problem}."
            ) from error
        raise


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


def evaluation_seeds(indices: np.ndarray) -> np.ndarray:
    """Returns the seeds, `[B, 2]`, of records `[B]` in every evaluation.

    Their second number is negative; in training it is not. So they differ.
    """
    return _seeds(0, -1 - indices)


def _seeds(seed: int, numbers: np.ndarray) -> np.ndarray:
    first = np.full(len(numbers), seed & 0x7FFFFFFFFFFFFFFF, np.int64)
    return np.stack([first, numbers], axis=1)


def _dataset(
    context: tf.distribute.InputContext,
    source: RecordSource,
    batch_size: int,
    steps: range,
    records_of: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]],
    weights: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
) -> tf.data.Dataset:
    """Creates the batches of a worker's replicas in turn.

    `records_of` returns the records and seeds of rows `[b]` of a batch, and
    `weights` the `example_weights` of the same rows.
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
        if weights is None:
            return batch
        rows = rows_of(element, tf.range(per_replica, dtype=tf.int64))
        return {**batch, "example_weights": weights(*rows)}

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
