"""Record files of a task's data sets."""

import dataclasses
import os
from collections.abc import Iterator

import numpy as np
from absl import logging

from bert.files import paths
from bert.records import reading, sidecars, tfrecords
from bert.tasks import task as task_lib
from bert.training import workers

_RECORDS_PER_BATCH = 256


def make(
    task: task_lib.Task,
    data_set: task_lib.DataSet,
    communicator: workers.Communicator,
    type_vocab_size: int,
) -> task_lib.Records:
    """Writes the records of a data set, or reuses existing ones.

    They are reused if they were created from the same text with the same
    vocabulary, length and so on. The chief writes, and the others wait.

    Args:
        task, data_set: the examples.
        communicator: connects the workers.
        type_vocab_size: of the model: segment ids must be below it.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: the data set is empty; or there are only examples without
            records, such as questions about empty paragraphs, to train on; or
            a record is of a pair and the model has one type of segment.
    """
    path = os.path.join(task.options.output_dir, f"{data_set.name}.tf_record")
    wanted = _metadata(task, data_set)

    def write() -> None:
        if not _is_up_to_date(path, wanted):
            _write_records(path, wanted, data_set)

    communicator.chief_first(write)
    files = tfrecords.RecordFiles([path], may_be_empty=True)
    metadata = sidecars.read_metadata(path)
    flags = metadata.flags if metadata else {}
    counts = flags.get(sidecars.ROWS_PER_EXAMPLE, [1] * len(files))
    is_training = data_set.split == task_lib.TRAIN
    if not counts or (is_training and not len(files)):
        raise ValueError(
            f"{path}: none of {len(counts)} examples has a record. Are all "
            "texts empty?"
        )
    source = reading.RecordSource(
        files=files,
        features=data_set.features,
        vocab_size=task.tokenizer.vocab_size,
        type_vocab_size=type_vocab_size,
    )
    if type_vocab_size == 1:
        # Reading checks them: a pair is an error before the training.
        for start in range(0, len(files), _RECORDS_PER_BATCH):
            end = min(start + _RECORDS_PER_BATCH, len(files))
            source.read(np.arange(start, end))
    return task_lib.Records(
        data_set=data_set,
        source=source,
        rows_per_example=np.asarray(counts, np.int64),
    )


def identity(
    task: task_lib.Task, data_set: task_lib.DataSet
) -> dict[str, object]:
    """Identifies the text of a data set and its conversion, as JSON."""
    values = dataclasses.asdict(_metadata(task, data_set))
    del values["num_records"]
    flags = values.pop("flags")
    return {**values, **flags}


def _metadata(
    task: task_lib.Task, data_set: task_lib.DataSet
) -> sidecars.Metadata:
    """Returns the expected sidecar of the records of a data set."""
    options, tokenizer = task.options, task.tokenizer
    return sidecars.Metadata(
        kind=data_set.kind,
        max_seq_length=options.max_seq_length,
        vocab_size=tokenizer.vocab_size,
        vocab_sha256=tokenizer.vocab_sha256,
        do_lower_case=options.do_lower_case,
        strip_accents=options.strips_accents,
        num_records=0,  # Filled in when they are written.
        flags=dict(data_set.made_from),
    )


def _is_up_to_date(path: str, wanted: sidecars.Metadata) -> bool:
    """Returns whether a record file is whole and was made from this data."""
    try:
        stored = sidecars.read_metadata(path)
        if stored is None or not paths.exists(path):
            return False
        files = tfrecords.RecordFiles([path], may_be_empty=True)
    except (OSError, ValueError) as error:
        logging.warning("%s is damaged, and is made again: %s", path, error)
        return False
    counts = stored.flags.get(sidecars.ROWS_PER_EXAMPLE, [1] * len(files))
    if not (
        sidecars.is_same_data(stored, wanted)
        and sum(counts) == len(files) == stored.num_records
    ):
        return False
    logging.info("%s: reusing %d records", path, len(files))
    return True


def _write_records(
    path: str, wanted: sidecars.Metadata, data_set: task_lib.DataSet
) -> None:
    """Writes a record file, then its sidecar."""
    counts: list[int] = []

    def rows() -> Iterator[task_lib.Record]:
        for example in data_set.examples():
            counts.append(len(example))
            yield from example

    sidecars.remove_metadata(path)
    tfrecords.write_rows(path, rows(), data_set.features)
    flags = dict(wanted.flags)
    if any(count != 1 for count in counts):
        flags[sidecars.ROWS_PER_EXAMPLE] = counts
    sidecars.write_metadata(
        path,
        dataclasses.replace(wanted, num_records=sum(counts), flags=flags),
    )
