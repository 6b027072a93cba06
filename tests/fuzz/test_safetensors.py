"""Damaged safetensors files: whatever is read lies inside the file, once."""

import contextlib
import itertools
import json
import struct

import numpy as np
import pytest
import safetensors.numpy

from modeling import huggingface
from tests.fuzz import mutations

_ARRAYS = {
    "bert.embeddings.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "classifier.bias": np.arange(5, dtype=np.float16),
    "step": np.asarray(7, np.int64),
    "empty": np.zeros([0, 3], np.int8),
}


_GOOD = safetensors.numpy.save(_ARRAYS, {"format": "pt"})
_DATA = _GOOD[8 + struct.unpack("<Q", _GOOD[:8])[0] :]
_HEADER = json.loads(_GOOD[8 : -len(_DATA)])


def _file(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + _DATA


def _read(path):
    with contextlib.ExitStack() as files:
        found = huggingface.Reader(path, files)
        return {
            name: (held, found.read(name))
            for name, held in found.variables.items()
        }


def _is_right(found, content):
    (length,) = struct.unpack("<Q", content[:8])
    data, header = content[8 + length :], json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    spans = sorted(tuple(value["data_offsets"]) for value in header.values())
    held = sorted(
        (list(array.shape), array.tobytes()) for _, array in found.values()
    )
    return (
        held
        == sorted(
            (value["shape"], data[slice(*value["data_offsets"])])
            for value in header.values()
        )
        and all(
            (array.shape, array.dtype.name) == shape_and_type
            for shape_and_type, array in found.values()
        )
        and sum(stop - start for start, stop in spans) == len(data)
        and all(
            stop <= start for (_, stop), (start, _) in itertools.pairwise(spans)
        )
    )


def test_arrays_are_those_of_the_bytes_or_an_error(check):
    words = mutations.BINARY_WORDS + mutations.TEXT_WORDS
    headers = mutations.endless_json(9, [_HEADER])
    cases = mutations.alternate(
        mutations.endless(9, [_GOOD], words), map(_file, headers)
    )
    check(_read, "model.safetensors", cases, _is_right)


@pytest.mark.parametrize("length", [2**60, 2**64 - 1, 10**8])
def test_an_absurd_header_is_an_error(tmp_path, length):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + _GOOD[8:])
    with pytest.raises(ValueError, match="header"):
        _read(str(path))
