"""TFRecord files: random access, writing and checksums.

A TFRecord file is a sequence of frames: the length of a record (8 bytes), a
checksum of the length (4), the record, a checksum of the record (4), all
little endian. The checksum is CRC-32C, rotated and shifted.

A record is a `tf.train.Example`. With fixed features it is nearly all numbers,
which numpy encodes for a batch at once; the bytes between them depend on their
sizes alone. Features are sorted by name, so that equal records have equal
bytes. This module does not import TensorFlow.

Source: the TFRecord format, tensorflow.org/tutorials/load_data/tfrecord; the
protobuf wire format, protobuf.dev/programming-guides/encoding; and the messages
of tensorflow/core/example (example.proto, feature.proto).
"""

import array
import contextlib
import functools
import hashlib
import itertools
import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
from absl import logging

from files import paths, writing

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_HEADER_BYTES = _LENGTH.size + _CHECKSUM.size
_FRAME_BYTES = _HEADER_BYTES + _CHECKSUM.size
_MASK_DELTA = 0xA282EAD8
_RECORDS_IN_FINGERPRINT = 32

_GZIP = b"\x1f\x8b"

# A field of variable length: its number, then wire type 2.
_EXAMPLE_FEATURES = _FEATURES_FEATURE = _MAP_KEY = b"\x0a"  # Field 1.
_MAP_VALUE = b"\x12"  # Field 2.
_LIST_VALUE = b"\x0a"  # Field 1, packed.
_FLOAT_LIST = b"\x12"  # Field 2 of Feature.
_INT64_LIST = b"\x1a"  # Field 3 of Feature.
_BITS_PER_BYTE = 7
_MAX_VARINT_BYTES = 10


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
        self._starts = [_index(path) for path in self.paths]
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
        data = framed[_HEADER_BYTES : -_CHECKSUM.size]
        header_is_right = framed[:_HEADER_BYTES] == _header(
            end - begin - _FRAME_BYTES
        )
        if not header_is_right or framed[-_CHECKSUM.size :] != _checksum(data):
            raise _error(
                *(self.paths[number], record, begin),
                "the record does not match its checksum. The file is damaged, "
                "or was changed while it was in use; create or copy it again.",
            )
        return data


def _index(path: str) -> np.ndarray:
    """Returns the offset of each record of a file, then the file's size."""
    # Few lengths differ: caching verified headers avoids nearly every checksum.
    frame_sizes: dict[bytes, int] = {}
    starts = array.array("q")
    start = 0
    with paths.open_to_read(path) as file:
        file.seek(0, 2)
        size = file.tell()
        while start < size:
            file.seek(start)
            header = file.read(_HEADER_BYTES)
            frame_size = frame_sizes.get(header)
            if frame_size is None:
                (length,) = _LENGTH.unpack(header[:8].ljust(8, b"\0"))
                if len(header) == _HEADER_BYTES and header != _header(length):
                    raise _wrong_header(path, len(starts), start, header)
                frame_size = frame_sizes[header] = length + _FRAME_BYTES
            starts.append(start)
            start += frame_size
    if start > size:
        raise _error(
            *(path, len(starts) - 1, starts[-1]),
            f"the record is incomplete; the file is truncated at byte {size}. "
            "Create or copy it again.",
        )
    starts.append(size)
    return np.frombuffer(starts, np.int64)


def _wrong_header(
    path: str, record: int, start: int, header: bytes
) -> ValueError:
    if record:
        problem = (
            "the length does not match its checksum. The file is damaged from "
            "there on; create or copy it again."
        )
    elif header.startswith(_GZIP):
        problem = "the file is compressed (gzip). Decompress it first."
    else:
        problem = f"not a TFRecord file (it begins with {header!r})."
    return _error(path, record, start, problem)


def _error(path: str, record: int, start: int, problem: str) -> ValueError:
    return ValueError(f"{path}, record {record} at byte {start}: {problem}")


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
            frames = [frame(record) for record in serialize_batch(batch)]
            for turn, file in enumerate(files):
                own = frames[(turn - total) % num_files :: num_files]
                file.write(b"".join(own))
                counts[turn] += len(own)
            total += len(frames)
    return counts


def frame(record: bytes) -> bytes:
    """Adds the length and checksums of the TFRecord format to a record."""
    return b"".join((_header(len(record)), record, _checksum(record)))


@functools.lru_cache(maxsize=1 << 12)
def _header(length: int) -> bytes:
    packed = _LENGTH.pack(length)
    return packed + _checksum(packed)


def _checksum(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    rotated = crc >> 15 | crc << 17
    return _CHECKSUM.pack((rotated + _MASK_DELTA) & 0xFFFFFFFF)


def serialize_batch(arrays: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes `B` examples.

    It takes 4 microseconds for a record of 128 tokens; `tf.train.Example` takes
    24.

    Args:
        arrays: for each feature `[B, ...]`, integers (stored as int64) or
            floats (stored as float32); one or more values a record.

    Returns:
        `B` serialized `tf.train.Example`.
    """
    names = sorted(arrays, key=str.encode)
    columns = [_feature_column(name, arrays[name]) for name in names]
    rows = map(b"".join, zip(*columns, strict=True))
    return [_EXAMPLE_FEATURES + _varint(len(row)) + row for row in rows]


def _feature_column(name: str, values: np.ndarray) -> list[bytes]:
    """Serializes one feature of `B` records, each as an entry of the map."""
    width = math.prod(values.shape[1:])
    values = values.reshape(len(values), width)  # [B, W]
    if values.dtype.kind == "f":
        kind = _FLOAT_LIST
        packed = values.astype("<f4").tobytes()
        sizes = np.full(len(values), 4 * width)  # [B]
    else:
        kind = _INT64_LIST
        packed, sizes = _varints(values)
    ends = np.cumsum(sizes).tolist()
    return [
        _entry_head(name, kind, end - start) + packed[start:end]
        for start, end in itertools.pairwise([0, *ends])
    ]


def _varints(values: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Encodes integers as varints: seven bits a byte, the lowest first.

    Args:
        values: `[B, W]` integers; negative ones take ten bytes, as int64 does.

    Returns:
        The concatenated bytes of all rows, and `[B]`, the size of each row.
    """
    largest, least = values.max(initial=0), values.min(initial=0)
    if least >= 0 and largest < 1 << _BITS_PER_BYTE:
        return values.astype(np.uint8).tobytes(), np.full(*values.shape)
    if least >= 0:
        width = -(-int(largest).bit_length() // _BITS_PER_BYTE)
        unsigned = np.uint32 if width <= 4 else np.uint64
        rest: np.ndarray[Any, Any] = values.astype(unsigned)  # [B, W]
    else:
        width = _MAX_VARINT_BYTES
        rest = values.astype(np.int64).view(np.uint64)  # [B, W]
    digits = np.empty((*values.shape, width), np.uint8)
    is_used = np.empty(digits.shape, bool)
    for place in range(width):
        is_used[:, :, place] = rest > 0
        has_more = rest >= 1 << _BITS_PER_BYTE
        digits[:, :, place] = rest  # The lowest eight bits.
        digits[:, :, place] &= 0x7F
        digits[:, :, place] |= has_more.view(np.uint8) << _BITS_PER_BYTE
        rest = rest >> _BITS_PER_BYTE
    is_used[:, :, 0] = True
    # Twice as fast as an index of booleans.
    used = np.compress(is_used.ravel(), digits.ravel())
    return used.tobytes(), np.count_nonzero(is_used, axis=(1, 2))


@functools.lru_cache(maxsize=1 << 16)
def _entry_head(name: str, kind: bytes, num_bytes: int) -> bytes:
    """Encodes a feature up to the `num_bytes` bytes of its values."""
    key = name.encode("utf-8")
    values_head = _LIST_VALUE + _varint(num_bytes)
    list_head = kind + _varint(len(values_head) + num_bytes)
    value_size = len(list_head) + len(values_head) + num_bytes
    entry = b"".join(
        (_MAP_KEY, _varint(len(key)), key, _MAP_VALUE, _varint(value_size))
    )
    size = _varint(len(entry) + value_size)
    return b"".join((_FEATURES_FEATURE, size, entry, list_head, values_head))


@functools.lru_cache(maxsize=1 << 16)
def _varint(number: int) -> bytes:
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= _BITS_PER_BYTE
    digits.append(number)
    return bytes(digits)
