"""The data of a task: records, created or reused, their order and batches."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from files import paths
from modeling import config as config_lib
from tasks import task as task_lib
from training import flags as training_flags
from training import (
    input_pipeline,
    record_files,
    record_order,
    records,
    workers,
)

_STEP_LIMIT = 2**63  # Steps are int64.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setup:
    """The shared setup of all trials of a run.

    Attributes:
        options: the flags; `output_dir` contains the records of the run, and
            the folders of several trials.
        config: the configuration of the model.
        text: the text options for the descriptions of models and records:
            `vocab_sha256` and `do_lower_case`.
        vocab_size: the size of the vocabulary: ids are below it.
        strategy: holds the variables.
    """

    options: training_flags.FineTuningOptions
    config: config_lib.BertConfig
    text: Mapping[str, Any]
    vocab_size: int
    strategy: tf.distribute.Strategy

    def record_path(self, name: str) -> str:
        """Returns the path of the records called `name`."""
        return os.path.join(self.options.output_dir, f"{name}.tf_record")

    def make_data(self, data_set: task_lib.DataSet) -> task_lib.Data:
        """Creates the records of a data set, or reuses existing ones.

        Raises:
            ValueError: the data set is empty.
        """
        path = self.record_path(data_set.name)
        files, rows_per_example = make_or_reuse(
            path,
            self.metadata(data_set),
            lambda: _write_examples(path, data_set),
            workers.Communicator(self.strategy),
        )
        return task_lib.Data(
            data_set=data_set,
            source=input_pipeline.RecordSource(
                files=files,
                features=data_set.features,
                vocab_size=self.vocab_size,
            ),
            rows_per_example=rows_per_example,
        )

    def metadata(self, data_set: task_lib.DataSet) -> records.Metadata:
        """Returns the expected sidecar of the records of a data set."""
        return records.Metadata(
            kind=data_set.kind,
            max_seq_length=self.options.max_seq_length,
            vocab_size=self.vocab_size,
            num_records=0,  # Filled in when they are written.
            flags=data_set.made_from,
            **self.text,
        )


# Record files, and the number of records of each example, `[E]` int64.
_Made = tuple[record_files.RecordFiles, np.ndarray]


def make_or_reuse(
    path: str,
    made_from: records.Metadata,
    write_file: Callable[[], list[int]],
    communicator: workers.Communicator,
    take_part: Callable[[], object] | None = None,
) -> _Made:
    """Writes a record file and its sidecar, or reuses existing ones.

    They are reused if they were created from the same text with the same
    vocabulary, length and so on. With several workers the chief writes, and the
    others wait.

    Args:
        path: the record file.
        made_from: the sidecar, except for the numbers of records.
        write_file: writes the file; returns the number of records of each
            example.
        communicator: of the workers.
        take_part: what the other workers do while the chief writes, if it needs
            all of them.

    Returns:
        The file, and the number of records of each example, `[E]` int64.
    """
    held = _reuse(path, made_from)
    # Decided by the chief: either all workers take part, or none.
    is_chief = workers.is_chief()
    if communicator.all_reduce_max(int(is_chief and held is None)):
        if is_chief:
            held = _write(path, made_from, write_file)
        elif take_part:
            take_part()
        communicator.barrier()
    held = held or _reuse(path, made_from)
    if held is None:
        raise OSError(f"This worker cannot see {path}, which the chief wrote.")
    return held


def _reuse(path: str, made_from: records.Metadata) -> _Made | None:
    try:
        held = records.read_metadata(path)
        if (
            held is None
            or not paths.exists(path)
            or not records.is_same_data(held, made_from)
        ):
            return None
        files = record_files.RecordFiles([path])
    except ValueError as error:
        logging.warning("%s is made again: %s", path, error)
        return None
    counts = held.flags.get(records.ROWS_PER_EXAMPLE, [1] * len(files))
    if not sum(counts) == len(files) == held.num_records:
        return None
    logging.info("%s: reusing %d records", path, len(files))
    return files, np.asarray(counts, np.int64)


def _write(
    path: str, made_from: records.Metadata, write_file: Callable[[], list[int]]
) -> _Made:
    records.remove_metadata(path)
    counts = write_file()
    flags = dict(made_from.flags)
    if any(count != 1 for count in counts):
        flags[records.ROWS_PER_EXAMPLE] = counts
    records.write_metadata(
        path,
        dataclasses.replace(made_from, num_records=sum(counts), flags=flags),
    )
    return record_files.RecordFiles([path]), np.asarray(counts, np.int64)


def _write_examples(path: str, data_set: task_lib.DataSet) -> list[int]:
    counts = []

    def rows() -> Iterator[Mapping[str, Any]]:
        for example in data_set.examples():
            counts.append(len(example))
            yield from example

    records.write_records(path, rows(), data_set.features)
    return counts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Length:
    """The length of a run in steps, as the release counts it."""

    num_train_steps: int
    num_warmup_steps: int
    steps_per_epoch: int


def length(
    num_examples: int, options: training_flags.FineTuningOptions
) -> Length:
    """Counts the steps of a run.

    As released: fractions of a training step and of a warm-up step are dropped.

    Args:
        num_examples: the examples of one epoch.
        options: the options of the run.

    Raises:
        ValueError: there is less than one step, or too many to count.
    """
    batch_size = options.train_batch_size
    num_train_epochs = options.num_train_epochs
    num_batches = num_examples / batch_size * num_train_epochs
    if num_batches >= _STEP_LIMIT:
        raise ValueError(
            f"--num_train_epochs={num_train_epochs:g} makes more steps than a "
            "64-bit integer can count. Choose a smaller number."
        )
    num_train_steps = int(num_batches)
    if num_train_steps < 1:
        raise ValueError(
            f"{num_examples} examples in batches of {batch_size} for "
            f"{num_train_epochs:g} epochs make less than one step. Choose a "
            "smaller --train_batch_size or a larger --num_train_epochs."
        )
    return Length(
        num_train_steps=num_train_steps,
        num_warmup_steps=int(num_train_steps * options.warmup_proportion),
        # Rounded up, so that the last epoch ends with the run.
        steps_per_epoch=-(-num_examples // batch_size),
    )


def num_examples(train: task_lib.Data) -> int:
    """Counts the examples of an epoch."""
    if train.data_set.counts_examples:
        return len(train.rows_per_example)
    return len(train.source.files)


def training_batches(
    source: input_pipeline.Source, options: training_flags.FineTuningOptions
) -> input_pipeline.TrainingBatches:
    """Orders the records of a run: all are shuffled in each epoch."""
    step = input_pipeline.TRAINING_LENGTH_STEP
    if options.packing:
        source = dataclasses.replace(
            source,
            packed_length=-(-int(source.lengths().max()) // step) * step,
            num_parts=options.num_accumulation_steps,
        )
    return input_pipeline.TrainingBatches(
        source=source,
        batch_size=options.train_batch_size,
        order=record_order.RecordOrder(len(source.files), options.random_seed),
    )
