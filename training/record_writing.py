"""Batches of arrays -> TFRecord files; needs no TensorFlow."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from files import writing
from training import record_bytes, record_files


def write_batches(
    record_paths: Sequence[str], batches: Iterable[Mapping[str, np.ndarray]]
) -> list[int]:
    """Writes records to TFRecord files, filling the files in turn.

    Record `i` goes to file `i % len(record_paths)`, as in the release. The
    files take their names when all of them are whole; batches are consumed one
    at a time.

    Args:
        record_paths: one or more different files.
        batches: for each feature `[B, ...]`, integers or floats; B may differ.

    Returns:
        The number of records in each file.

    Raises:
        ValueError: no file or the same file twice is named.
    """
    if not record_paths or len(set(record_paths)) != len(record_paths):
        raise ValueError(
            "Records need one or more different output files; "
            f"got {list(record_paths)}."
        )
    num_files = len(record_paths)
    counts = [0] * num_files
    total = 0
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(writing.whole_file(path, "wb"))
            for path in record_paths
        ]
        for batch in batches:
            frames = [
                record_files.frame(record)
                for record in record_bytes.serialize_batch(batch)
            ]
            for turn, file in enumerate(files):
                own = frames[(turn - total) % num_files :: num_files]
                file.write(b"".join(own))
                counts[turn] += len(own)
            total += len(frames)
    return counts
