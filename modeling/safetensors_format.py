"""The safetensors format: named arrays behind a header of JSON.

Source: https://huggingface.co/docs/safetensors (the format). The library of
that name writes only what is in memory as a whole and gives NumPy no bfloat16;
the format is small enough to read and write here, one array at a time.
"""

import dataclasses
import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

_TYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_CODES = {dtype.name: code for code, dtype in _TYPES.items()}
_METADATA = "__metadata__"
_LENGTH = struct.Struct("<Q")
_MOST_HEADER_BYTES = 100_000_000  # Source: the format.
_MOST_AXES, _LONGEST_AXIS = 32, 2**40
_ALIGNMENT = 8  # Source: the format; of the first array.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """An array in a file.

    Attributes:
        shape: its axes.
        dtype: NumPy's name of its type.
        start: its first byte in the file.
        num_bytes: how many there are.
    """

    shape: tuple[int, ...]
    dtype: str
    start: int
    num_bytes: int


class Reader:
    """Reads the arrays of a file, each when it is asked for.

    Args:
        path: of a local file.

    Attributes:
        entries: what is in it, by name.
        metadata: texts by name that its writer added.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is cut short, or not of this format.
    """

    def __init__(self, path: str):
        self._path = path
        self._file = open(path, "rb")  # noqa: SIM115, until `close`
        try:
            self.entries, self.metadata = _read_header(self._file, path)
        except BaseException:
            self._file.close()
            raise

    def read(self, name: str) -> np.ndarray:
        """Reads one array, in the type that it is stored in."""
        entry = self.entries[name]
        self._file.seek(entry.start)
        data = np.fromfile(self._file, np.uint8, entry.num_bytes)
        if len(data) < entry.num_bytes:
            raise ValueError(_broken(self._path, f"{name} is cut short"))
        dtype = _TYPES[_CODES[entry.dtype]]
        return data.view(dtype).reshape(entry.shape)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def write(
    file: BinaryIO,
    specs: Mapping[str, tuple[tuple[int, ...], str]],
    read: Callable[[str], np.ndarray],
    metadata: Mapping[str, str],
) -> None:
    """Writes arrays, of which one at a time is in memory.

    Args:
        file: takes the bytes.
        specs: shape and NumPy's name of the type, by name.
        read: returns the array of a name, in that shape and type.
        metadata: texts to add.

    Raises:
        ValueError: the format has no such type.
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    # The widest types first, so that every array begins at a multiple of its
    # own width.
    order = sorted(specs, key=lambda n: (-_item_size(n, specs[n][1]), n))
    end = 0
    for name in order:
        shape, dtype = specs[name]
        start = end
        end += math.prod(shape) * _item_size(name, dtype)
        header[name] = {
            "dtype": _CODES[dtype],
            "shape": list(shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(_LENGTH.pack(len(text)) + text)
    for name in order:
        dtype = _TYPES[_CODES[specs[name][1]]]
        array = np.ascontiguousarray(read(name), dtype)
        # bfloat16 has no buffer of its own.
        file.write(array.reshape(-1).view(np.uint8).data)


def _item_size(name: str, dtype: str) -> int:
    if dtype not in _CODES:
        raise ValueError(
            f"An array of a safetensors file must be one of {sorted(_CODES)}; "
            f"{name} is of {dtype}."
        )
    return _TYPES[_CODES[dtype]].itemsize


def _read_header(
    file: BinaryIO, path: str
) -> tuple[dict[str, Entry], dict[str, str]]:
    size = os.fstat(file.fileno()).st_size
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise ValueError(_broken(path, f"it has {size} bytes"))
    (length,) = _LENGTH.unpack(head)
    first = _LENGTH.size + length
    if length > _MOST_HEADER_BYTES or first > size:
        raise ValueError(
            _broken(path, f"its header would end at byte {first} of {size}")
        )
    try:
        header = json.loads(file.read(length), object_pairs_hook=_once)
        metadata = header.pop(_METADATA, {})
        if not all(isinstance(text, str) for text in metadata.values()):
            raise ValueError(f"{_METADATA} must hold texts")
        entries = {
            name: _entry(name, value, first) for name, value in header.items()
        }
    except (
        *(ValueError, KeyError, TypeError, AttributeError),
        RecursionError,
    ) as error:
        raise ValueError(
            _broken(path, f"its header: {error!s:.300}")
        ) from error
    end = first
    for name, entry in sorted(entries.items(), key=lambda e: e[1].start):
        if entry.start != end and entry.num_bytes:
            raise ValueError(
                _broken(path, f"{name:.100} begins at {entry.start}, not {end}")
            )
        end += entry.num_bytes
    if end != size:
        raise ValueError(
            _broken(path, f"its arrays end at byte {end}, the file at {size}")
        )
    return entries, metadata


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses a name that stands twice, of which JSON keeps the second."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice:.100} stands twice")
    return values


def _entry(name: str, value: Mapping[str, Any], first: int) -> Entry:
    start, stop = value["data_offsets"]
    if not isinstance(value["shape"], list):
        raise ValueError(f"{name} has a shape that is no list")
    shape = tuple(value["shape"])
    if value["dtype"] not in _TYPES:
        raise ValueError(f"{name} is of the unknown type {value['dtype']}")
    dtype = _TYPES[value["dtype"]]
    if not all(type(n) is int and n >= 0 for n in (start, stop, *shape)):
        raise ValueError(f"{name} has an axis or offset that is no count")
    if len(shape) > _MOST_AXES or max(shape, default=0) > _LONGEST_AXIS:
        raise ValueError(f"{name} has more or longer axes than any array")
    if stop - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(
            f"{name} {list(shape)} of {dtype.name} cannot take "
            f"{stop - start} bytes"
        )
    return Entry(
        shape=shape,
        dtype=dtype.name,
        start=first + start,
        num_bytes=stop - start,
    )


def _broken(path: str, what: str) -> str:
    return (
        f"{path!r} is cut short, or no safetensors file: {what}. If it was "
        "copied, copy it again."
    )
