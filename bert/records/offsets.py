"""Offsets of the records of TFRecord files.

Beside a record file `NAME`, `NAME.index.npy` has the sizes of its frames, so
that a start does not read all headers. Files without it are scanned.
"""

import array
import io
from collections.abc import Sequence

import numpy as np
from absl import logging

from bert.files import paths, writing
from bert.records import framing

ENDING = ".index.npy"
LEAST_RECORDS = 1000  # Fewer headers are read in the time of an index.
_GZIP = b"\x1f\x8b"


def index_path(record_path: str) -> str:
    """Returns the path of the index of a record file."""
    return record_path + ENDING


def write(record_path: str, frame_sizes: Sequence[int]) -> None:
    """Writes the index of a record file, unless the file has few records."""
    if len(frame_sizes) < LEAST_RECORDS:
        return
    with writing.whole_file(index_path(record_path), "wb") as file:
        np.save(file, np.array(frame_sizes, np.uint32))


def remove(record_path: str) -> None:
    """Removes the index of a record file before the file is replaced."""
    paths.remove(index_path(record_path))


def read(record_path: str) -> np.ndarray:
    """Returns the offset of each record of a file, then the file's size.

    Raises:
        OSError: the file cannot be opened.
        ValueError: see `tfrecords.RecordFiles`.
    """
    if paths.exists(index_path(record_path)):
        starts = _stored(record_path)
        if starts is not None:
            return starts
        logging.warning(
            "%s is not the index of %s and is not used.",
            index_path(record_path),
            record_path,
        )
    return _scan(record_path)


def _stored(record_path: str) -> np.ndarray | None:
    """Returns the offsets of the index; None if it is of another file."""
    with paths.open_to_read(index_path(record_path)) as file:
        content = io.BytesIO(file.read())
    try:
        frame_sizes = np.load(content, allow_pickle=False)
    except (EOFError, ValueError):
        return None
    if frame_sizes.dtype != np.uint32 or frame_sizes.ndim != 1:
        return None
    starts = np.concatenate([[0], np.cumsum(frame_sizes, dtype=np.int64)])
    with paths.open_to_read(record_path) as file:
        is_right = file.seek(0, io.SEEK_END) == starts[-1]
        # A sample, since each header is compared again when it is read.
        for place in {0, len(frame_sizes) // 2, len(frame_sizes) - 1}:
            if not is_right or not len(frame_sizes):
                break
            file.seek(int(starts[place]))
            length = int(frame_sizes[place]) - framing.FRAME_BYTES
            is_right = file.read(framing.HEADER_BYTES) == framing.header(length)
    return starts if is_right else None


def _scan(path: str) -> np.ndarray:
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
            header = file.read(framing.HEADER_BYTES)
            frame_size = frame_sizes.get(header)
            if frame_size is None:
                (length,) = framing.LENGTH.unpack(header[:8].ljust(8, b"\0"))
                if len(
                    header
                ) == framing.HEADER_BYTES and header != framing.header(length):
                    raise _wrong_header(path, len(starts), start, header)
                frame_size = frame_sizes[header] = length + framing.FRAME_BYTES
            starts.append(start)
            start += frame_size
    if start > size:
        raise framing.error(
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
    return framing.error(path, record, start, problem)
