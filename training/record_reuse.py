"""Records that were written by an earlier run and need not be made again."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from files import paths
from training import record_files, records


def file_sha256(path: str) -> str:
    """Hashes a file."""
    digest = hashlib.sha256()
    for chunk in paths.chunks_of(path):
        digest.update(chunk)
    return digest.hexdigest()


def find(path: str, wanted: records.Metadata) -> records.Metadata | None:
    """Finds records that were made as they are wanted now.

    Args:
        path: of the record file.
        wanted: how they must have been made; the number of records does not
            matter, nor do flags that are not among these.

    Returns:
        How they were made; None where they must be made (again).
    """
    held = records.read_metadata(path)
    if held is None or not tf.io.gfile.exists(path):
        return None
    alike = dataclasses.replace(
        held,
        num_records=wanted.num_records,
        flags={name: held.flags.get(name) for name in wanted.flags},
    )
    if alike != wanted:
        return None
    if len(record_files.RecordFiles([path])) != held.num_records:
        return None
    logging.info(
        "%s holds the %s records of an earlier run from the same input; they "
        "are used again.",
        path,
        f"{held.num_records:,}",
    )
    return held


def write(
    path: str,
    examples: Iterable[Mapping[str, Any]],
    features: Sequence[records.Feature],
    metadata: Callable[[int], records.Metadata],
) -> records.Metadata:
    """Writes a record file and its sidecar.

    Args:
        path: of the record file.
        examples: as for `records.write_records`.
        features: what a record holds.
        metadata: says of a number of records how they were made; called when
            all are written.

    Returns:
        What is in the sidecar.
    """
    sidecar = records.metadata_path(path)
    if tf.io.gfile.exists(sidecar):
        # Else a run that dies before its own would leave one that is wrong.
        tf.io.gfile.remove(sidecar)
    (count,) = records.write_records([path], examples, features)
    written = metadata(count)
    records.write_metadata(path, written)
    logging.info("Wrote %s records to %s", f"{count:,}", path)
    return written
