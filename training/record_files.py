"""TFRecord files: random access and writing."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from files import paths, writing
from training import example_encoder, record_frames, record_index

_RECORDS_IN_FINGERPRINT = 32


class RecordFiles:
    """Random access to the records of several TFRecord files, in file order.

    The constructor reads all headers to find the offsets of the records.
    Reading seeks, verifies every checksum and keeps no file open between calls,
    so threads may share an object. The files must not change meanwhile.

    Args:
        record_paths: local or remote files; sidecars (`*.meta.json`), which a
            glob may match, are left out.
        may_be_empty: whether the files may have no record.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not a TFRecord file, is compressed, is truncated
            or has a damaged header (names the file, the record and the byte);
            or all files are empty.
    """

    def __init__(
        self, record_paths: Sequence[str], *, may_be_empty: bool = False
    ):
        unique: dict[str, str] = {}
        for path in record_paths:
            if path.endswith(paths.SIDECAR_ENDING):
                continue
            own = path if paths.is_remote(path) else os.path.realpath(path)
            if own in unique:
                logging.warning("%s is named twice and read once.", path)
            unique.setdefault(own, path)
        self.paths = tuple(unique.values())
        # For each file the offset of each record, then the file's size.
        self._starts = [record_index.scan(path) for path in self.paths]
        counts = [len(starts) - 1 for starts in self._starts]
        self._first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        if not (may_be_empty or len(self)):
            names = ", ".join(self.paths) or "no file"
            raise ValueError(f"There are no records to read in: {names}.")

    def __len__(self) -> int:
        return int(self._first[-1])

    def fingerprint(self) -> str:
        """Hashes the offsets of all records and a sample of their contents.

        Different data almost surely have different fingerprints, although few
        records are read.
        """
        digest = hashlib.sha256()
        for starts in self._starts:
            digest.update(starts.tobytes())
        count = min(len(self), _RECORDS_IN_FINGERPRINT)
        for record in self.read(
            np.linspace(0, len(self) - 1, count, dtype=int)
        ):
            digest.update(record)
        return digest.hexdigest()[:16]

    def name(self, index: int) -> str:
        """Returns the name of a record: its file and its number, from 0."""
        return self.names([index])[0]

    def names(self, indices: Sequence[int] | np.ndarray) -> list[str]:
        """Returns the name of each record."""
        numbers = np.searchsorted(self._first, indices, side="right") - 1
        records = np.asarray(indices) - self._first[numbers]
        return [
            f"{self.paths[number]} record {record}"
            for number, record in zip(
                numbers.tolist(), records.tolist(), strict=True
            )
        ]

    def first_records(self) -> np.ndarray:
        """Lists the first record of each file that is not empty."""
        return self._first[:-1][np.diff(self._first) > 0]

    def read(self, indices: Sequence[int] | np.ndarray) -> list[bytes]:
        """Reads records.

        Args:
            indices: `[n]` numbers of records, in any order, each in
                `[0, len(self))`; may repeat.

        Returns:
            The `n` records, in the order of `indices`.

        Raises:
            ValueError: a record does not match its checksums; names the file,
                the record in it (counted from 0) and the byte.
        """
        wanted = np.asarray(indices, np.int64)  # [n]
        found = [b""] * len(wanted)
        numbers = np.searchsorted(self._first, wanted, side="right") - 1
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            records = wanted[places] - self._first[number]
            with paths.open_to_read(self.paths[number]) as file:
                for place, record in zip(
                    places.tolist(), records.tolist(), strict=True
                ):
                    found[place] = self._read(file, number, record)
        return found

    def _read(self, file, number: int, record: int) -> bytes:
        begin, end = self._starts[number][record : record + 2].tolist()
        file.seek(begin)
        framed = file.read(end - begin)
        data = framed[record_frames.HEADER_BYTES : -record_frames.CHECKSUM.size]
        header_is_right = framed[
            : record_frames.HEADER_BYTES
        ] == record_frames.header(end - begin - record_frames.FRAME_BYTES)
        if not header_is_right or framed[
            -record_frames.CHECKSUM.size :
        ] != record_frames.checksum(data):
            raise record_frames.error(
                *(self.paths[number], record, begin),
                "the record does not match its checksum. The file is damaged, "
                "or was changed while it was in use; create or copy it again.",
            )
        return data


def write_batches(
    record_paths: Sequence[str], batches: Iterable[Mapping[str, np.ndarray]]
) -> list[int]:
    """Writes records to TFRecord files in turn.

    Record `i` goes to file `i % len(record_paths)`, as in the release. Files
    are renamed to their final names once all are complete; batches are consumed
    one at a time.

    Args:
        record_paths: one or more different files.
        batches: for each feature `[B, ...]`, integers or floats; B may differ.

    Returns:
        The number of records in each file.
    """
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
                record_frames.frame(record)
                for record in example_encoder.serialize_batch(batch)
            ]
            for turn, file in enumerate(files):
                own = frames[(turn - total) % num_files :: num_files]
                file.write(b"".join(own))
                counts[turn] += len(own)
            total += len(frames)
    return counts
