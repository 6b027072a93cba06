"""TFRecord files: random access and writing."""

import array
import functools
import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from absl import logging

from bert.files import paths, writing
from bert.records import (
    encoding,
    framing,
    offsets,
    schema,
    shuffling,
    sidecars,
)

_RECORDS_IN_FINGERPRINT = 32
_MAX_OPEN_FILES = 128
# A window of the order of records, and the first blocks of the next one.
_MAX_BLOCKS = shuffling.BLOCKS_PER_WINDOW * 5 // 4


class RecordFiles:
    """Random access to the records of several TFRecord files, in file order.

    Reading verifies every checksum. Local files are read record by record and
    stay open; of remote files, blocks of consecutive records are read and kept.
    Threads may share an object. The files must not change meanwhile.

    Args:
        record_paths: local or remote files; their sidecars and indices, which a
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
            if path.endswith((sidecars.ENDING, offsets.ENDING)):
                continue
            target = path if paths.is_remote(path) else os.path.realpath(path)
            if target in unique:
                logging.warning("%s is named twice and read once.", path)
            unique.setdefault(target, path)
        self.paths = tuple(unique.values())
        # A file has the offset of each record, then its own size.
        self._starts = [offsets.read(path) for path in self.paths]
        counts = [len(starts) - 1 for starts in self._starts]
        self._first = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        if not (may_be_empty or len(self)):
            names = ", ".join(self.paths or record_paths) or "no file"
            raise ValueError(f"There are no records to read in: {names}.")
        # Cached per object, and without a lock: an evicted file is closed when
        # its last reader is done.
        self._open = functools.lru_cache(_MAX_OPEN_FILES)(_LocalFile)
        self._block = functools.lru_cache(_MAX_BLOCKS)(self._read_block)

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
        numbers = np.searchsorted(self._first, wanted, side="right") - 1
        return [
            self._record(number, index)
            for number, index in zip(
                numbers.tolist(), wanted.tolist(), strict=True
            )
        ]

    def _record(self, number: int, index: int) -> bytes:
        """Reads record `index` of all, which is in file `number`."""
        path, starts = self.paths[number], self._starts[number]
        record = index - int(self._first[number])
        begin, end = starts[record : record + 2].tolist()
        if paths.is_remote(path):
            block, place = divmod(index, shuffling.RECORDS_PER_BLOCK)
            framed = self._block(block)[place]
        else:
            framed = self._open(path).read(begin, end - begin)
        data = framed[framing.HEADER_BYTES : -framing.CHECKSUM.size]
        header = framing.header(end - begin - framing.FRAME_BYTES)
        if framed != b"".join([header, data, framing.checksum(data)]):
            raise framing.error(
                path,
                record,
                begin,
                "the record does not match its checksum. The file is damaged, "
                "or was changed while it was in use; create or copy it again.",
            )
        return data

    def _read_block(self, block: int) -> list[bytes]:
        """Reads the frames of a block, at once those of each file."""
        begin = block * shuffling.RECORDS_PER_BLOCK
        end = min(begin + shuffling.RECORDS_PER_BLOCK, len(self))
        frames = []
        number = int(np.searchsorted(self._first, begin, side="right")) - 1
        while begin < end:
            first, stop = self._first[number : number + 2].tolist()
            starts = self._starts[number][begin - first : end - first + 1]
            with paths.open_to_read(self.paths[number]) as file:
                file.seek(int(starts[0]))
                content = file.read(int(starts[-1] - starts[0]))
            frames += [
                content[a:b]
                for a, b in itertools.pairwise((starts - starts[0]).tolist())
            ]
            begin, number = min(stop, end), number + 1
        return frames


class _LocalFile:
    """A file that threads read at any position; closed when unused."""

    def __init__(self, path: str):
        self._descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)


def write_rows(
    path: str,
    rows: Iterable[encoding.Row],
    features: Sequence[schema.Feature],
) -> None:
    """Writes records to a TFRecord file.

    The file appears under its name once it is complete; a few hundred records
    are kept in memory.
    """
    write_batches([path], encoding.batches(rows, features))


def write_batches(
    record_paths: Sequence[str],
    batches: Iterable[Mapping[str, np.ndarray]],
    *,
    with_indices: bool = False,
) -> list[int]:
    """Writes records to TFRecord files in turn.

    Record `i` goes to file `i % len(record_paths)`, as in the release. Files
    are renamed to their final names once all are complete; batches are consumed
    one at a time.

    Args:
        record_paths: one or more different files.
        batches: for each feature `[B, ...]`, integers or floats; B may differ.
        with_indices: whether to write the index of each file too.

    Returns:
        The number of records in each file.
    """
    num_files = len(record_paths)
    frame_sizes = [array.array("I") for _ in record_paths]
    total = 0
    for path in record_paths:
        offsets.remove(path)
    with writing.whole_files(record_paths, "wb") as files:
        for batch in batches:
            frames = [
                framing.frame(record)
                for record in encoding.serialize_batch(batch)
            ]
            for turn, file in enumerate(files):
                frames_of_file = frames[(turn - total) % num_files :: num_files]
                file.write(b"".join(frames_of_file))
                frame_sizes[turn].extend(map(len, frames_of_file))
            total += len(frames)
    if with_indices:
        for path, sizes in zip(record_paths, frame_sizes, strict=True):
            if not paths.is_stream(path):
                offsets.write(path, sizes)
    return list(map(len, frame_sizes))
