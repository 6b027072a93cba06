"""The data of a task: records, created or reused, their order and batches."""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from files import json_text, paths
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

        With several workers the chief writes, and the others wait.

        Raises:
            ValueError: the data set is empty.
        """
        path = self.record_path(data_set.name)
        made_from = self.metadata(data_set)
        files = reuse(path, made_from)
        if files is None and workers.cluster().is_chief:
            write(path, made_from, lambda: _write(path, data_set))
            files = record_files.RecordFiles([path])
        elif files is None:
            files = workers.wait_for(path, lambda: reuse(path, made_from))
        features = {each.name: each for each in data_set.features}
        return task_lib.Data(
            data_set=data_set,
            source=input_pipeline.RecordSource(
                files=files,
                features=data_set.features,
                vocab_size=self.vocab_size,
            ),
            rows_per_example=_rows_per_example(path, len(files)),
            read=lambda name: values(files, features[name]),
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


def reuse(
    path: str, made_from: records.Metadata
) -> record_files.RecordFiles | None:
    """Returns the records of a file if they were created from the same data.

    That is, from the same text with the same vocabulary, length and so on.

    Args:
        path: the record file.
        made_from: the expected sidecar, except for `num_records`.

    Returns:
        None if the file is missing or was created from other data.
    """
    held = records.read_metadata(path)
    if (
        held is None
        or not paths.exists(path)
        or not records.is_same_data(held, made_from)
    ):
        return None
    files = record_files.RecordFiles([path])
    counts = held.flags.get(records.ROWS_PER_EXAMPLE, [1] * len(files))
    if (
        not json_text.has_shape(counts, [int])
        or any(count < 0 for count in counts)
        or not sum(counts) == len(files) == held.num_records
    ):
        return None
    logging.info("%s: reusing %d records", path, len(files))
    return files


def _rows_per_example(path: str, num_records: int) -> np.ndarray:
    """Reads the number of records of each example, `[E]` int64."""
    held = records.read_metadata(path)
    counts = held.flags.get(records.ROWS_PER_EXAMPLE) if held else None
    return np.asarray(counts or [1] * num_records, np.int64)


def write(
    path: str,
    made_from: records.Metadata,
    write_file: Callable[[], list[int]],
) -> None:
    """Writes a record file and its sidecar.

    Args:
        path: the record file.
        made_from: the sidecar, except for the numbers of records.
        write_file: writes the file; returns the number of records of each
            example.
    """
    records.remove_metadata(path)
    counts = write_file()
    flags = dict(made_from.flags)
    if any(count != 1 for count in counts):
        flags[records.ROWS_PER_EXAMPLE] = counts
    records.write_metadata(
        path,
        dataclasses.replace(made_from, num_records=sum(counts), flags=flags),
    )


def _write(path: str, data_set: task_lib.DataSet) -> list[int]:
    counts = []

    def rows() -> Iterator[Mapping[str, Any]]:
        for example in data_set.examples():
            counts.append(len(example))
            yield from example

    records.write_records([path], rows(), data_set.features)
    return counts


def values(
    files: record_files.RecordFiles, feature: records.Feature
) -> np.ndarray:
    """Reads one feature of all records: `[N, *shape]`."""
    parts = records.scan(files, [feature])
    return np.concatenate([part[feature.name] for part in parts])


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
        ValueError: there is less than one step.
    """
    batch_size = options.train_batch_size
    num_train_epochs = options.num_train_epochs
    num_train_steps = int(num_examples / batch_size * num_train_epochs)
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
    of_files = train.data_set.examples_of_files
    return sum(of_files) if of_files else len(train.source.files)


def parts(
    train: task_lib.Data, num_train_epochs: float
) -> tuple[record_order.Part, ...]:
    """Divides records into the parts of files that training reads in turn.

    The share of each file in the steps is its share of the examples, whatever
    the number of records of an example.
    """
    of_files = train.data_set.examples_of_files
    if not of_files:
        return ()
    ends = np.cumsum(of_files)
    return tuple(
        record_order.Part(
            num_records=int(train.rows_per_example[start:end].sum()),
            num_taken=int((end - start) * num_train_epochs),
        )
        for start, end in zip(ends - of_files, ends, strict=True)
    )


def training_batches(
    source: input_pipeline.Source,
    options: training_flags.FineTuningOptions,
    parts: Sequence[record_order.Part] = (),
) -> input_pipeline.TrainingBatches:
    """Orders the records of a run: all are shuffled in each epoch.

    With `parts`, the parts follow each other, each shuffled separately.
    """
    everything = record_order.Part(num_records=len(source.files), num_taken=0)
    stream = record_order.ConsecutiveOrder(
        parts or [everything], options.random_seed
    )
    order: record_order.Order = stream
    step = input_pipeline.TRAINING_LENGTH_STEP
    if options.packing or options.bucket_by_length:
        lengths = source.lengths()
    if options.bucket_by_length:
        order = record_order.BucketedOrder(stream, lengths, options.random_seed)
        source = dataclasses.replace(source, length_step=step)
    if options.packing:
        source = dataclasses.replace(
            source,
            packed_length=-(-int(lengths.max()) // step) * step,
            num_parts=options.num_accumulation_steps,
        )
    phase = input_pipeline.BatchPhase(
        source=source,
        batch_size=options.train_batch_size,
        order=order,
        num_accumulation_steps=options.num_accumulation_steps,
    )
    return input_pipeline.TrainingBatches([phase])
