"""Offsets of the records of a file."""

import array

import numpy as np

from files import paths
from training import record_frames

_GZIP = b"\x1f\x8b"


def scan(path: str) -> np.ndarray:
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
            header = file.read(record_frames.HEADER_BYTES)
            frame_size = frame_sizes.get(header)
            if frame_size is None:
                (length,) = record_frames.LENGTH.unpack(
                    header[:8].ljust(8, b"\0")
                )
                if (
                    len(header) == record_frames.HEADER_BYTES
                    and header != record_frames.header(length)
                ):
                    raise _wrong_header(path, len(starts), start, header)
                frame_size = frame_sizes[header] = (
                    length + record_frames.FRAME_BYTES
                )
            starts.append(start)
            start += frame_size
    if start > size:
        raise record_frames.error(
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
    return record_frames.error(path, record, start, problem)
