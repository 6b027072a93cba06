"""Frames of TFRecord files.

A TFRecord file is a sequence of frames: the length of a record (8 bytes), a
checksum of the length (4), the record, a checksum of the record (4), all
little endian. The checksum is CRC-32C, rotated and shifted.

Source: the TFRecord format, tensorflow.org/tutorials/load_data/tfrecord.
"""

import functools
import struct

import google_crc32c

LENGTH = struct.Struct("<Q")
CHECKSUM = struct.Struct("<I")
HEADER_BYTES = LENGTH.size + CHECKSUM.size
FRAME_BYTES = HEADER_BYTES + CHECKSUM.size
_MASK_DELTA = 0xA282EAD8


def error(path: str, record: int, start: int, problem: str) -> ValueError:
    return ValueError(f"{path}, record {record} at byte {start}: {problem}")


def frame(record: bytes) -> bytes:
    """Adds the length and checksums of the TFRecord format to a record."""
    return b"".join((header(len(record)), record, checksum(record)))


@functools.lru_cache(maxsize=1 << 12)
def header(length: int) -> bytes:
    """Encodes a length and its checksum."""
    packed = LENGTH.pack(length)
    return packed + checksum(packed)


def checksum(data: bytes) -> bytes:
    """Encodes the checksum of some bytes."""
    crc = google_crc32c.value(data)
    rotated = crc >> 15 | crc << 17
    return CHECKSUM.pack((rotated + _MASK_DELTA) & 0xFFFFFFFF)
