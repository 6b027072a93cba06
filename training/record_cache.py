"""A cache of the records of task data, rebuilt when the data changes."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from files import paths
from training import record_files, records, workers


@dataclasses.dataclass(frozen=True, kw_only=True)
class CachedRecords:
    """A record file, and the number of records of each example.

    Attributes:
        files: the `R` records.
        rows_per_example: `[E]` int64, the number of records of each example.
    """

    files: record_files.RecordFiles
    rows_per_example: np.ndarray


def make_or_reuse(
    path: str,
    features: Sequence[records.Feature],
    made_from: records.Metadata,
    examples: Callable[[], Iterable[Sequence[Mapping[str, Any]]]],
) -> CachedRecords:
    """Writes the records of a data set, or reuses existing ones.

    Records are reused if their sidecar equals `made_from`: the same data,
    vocabulary, length and so on. With several workers the chief writes, and the
    others wait.

    Args:
        path: the record file.
        features: the features of a record.
        made_from: the sidecar; its `num_records` is filled in.
        examples: yields the records of each example, one or more.

    Raises:
        ValueError: the data set is empty.
    """
    return workers.find_or_make(
        path,
        lambda: reuse(path, made_from),
        lambda: _make(path, features, made_from, examples),
    )


def reuse(path: str, made_from: records.Metadata) -> CachedRecords | None:
    """Returns the records of a file if they were created from the same data.

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
    counts = held.flags.get(records.ROWS_PER_EXAMPLE) or [1] * len(files)
    if len(files) != held.num_records or not _adds_up(counts, len(files)):
        return None
    logging.info("%s: reusing %d records", path, len(files))
    return CachedRecords(
        files=files, rows_per_example=np.asarray(counts, np.int64)
    )


def values(
    files: record_files.RecordFiles, feature: records.Feature
) -> np.ndarray:
    """Reads one feature of all records: `[N, *shape]`."""
    parts = records.scan(files, [feature])
    return np.concatenate([part[feature.name] for part in parts])


def _make(path, features, made_from, examples) -> CachedRecords:
    records.remove_metadata(path)
    counts = []

    def rows() -> Iterator[Mapping[str, Any]]:
        for example in examples():
            counts.append(len(example))
            yield from example

    (num_records,) = records.write_records([path], rows(), features)
    flags = dict(made_from.flags)
    if any(count != 1 for count in counts):
        flags[records.ROWS_PER_EXAMPLE] = counts
    records.write_metadata(
        path,
        dataclasses.replace(made_from, num_records=num_records, flags=flags),
    )
    logging.debug(
        "%s: wrote %d records of %d examples", path, num_records, len(counts)
    )
    return CachedRecords(
        files=record_files.RecordFiles([path]),
        rows_per_example=np.asarray(counts, np.int64),
    )


def _adds_up(counts: Any, total: int) -> bool:
    """Returns whether the counts in a sidecar add up to `total`."""
    return (
        isinstance(counts, list)
        and all(type(count) is int and count >= 0 for count in counts)
        and sum(counts) == total
    )
