"""Damaged safetensors files: whatever is read lies inside the file, once."""

import io
import itertools
import json
import struct

import numpy as np
import pytest

from modeling import safetensors_format
from tests.fuzz import harness, mutations

_ARRAYS = {
    "bert.embeddings.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "classifier.bias": np.arange(5, dtype=np.float16),
    "step": np.asarray(7, np.int64),
    "empty": np.zeros([0, 3], np.int8),
}


def _good() -> bytes:
    file = io.BytesIO()
    specs = {n: (a.shape, a.dtype.name) for n, a in _ARRAYS.items()}
    metadata = {"format": "pt"}
    safetensors_format.write(file, specs, _ARRAYS.__getitem__, metadata)
    return file.getvalue()


_GOOD = _good()
_DATA = _GOOD[8 + struct.unpack("<Q", _GOOD[:8])[0] :]
_HEADER = json.loads(_GOOD[8 : -len(_DATA)])


def _file(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + _DATA


def _read(path):
    reader = safetensors_format.Reader(path)
    try:
        return reader.entries, {n: reader.read(n) for n in reader.entries}
    finally:
        reader.close()


def _is_right(found, content):
    entries, arrays = found
    (length,) = struct.unpack("<Q", content[:8])
    data, header = content[8 + length :], json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    spans = sorted(tuple(value["data_offsets"]) for value in header.values())
    places = sorted((e.start, e.num_bytes) for e in entries.values())
    return (
        set(arrays) == set(header)
        and all(
            arrays[name].tobytes() == data[slice(*value["data_offsets"])]
            and list(arrays[name].shape) == value["shape"]
            for name, value in header.items()
        )
        and sum(stop - start for start, stop in spans) == len(data)
        and all(
            start + size <= following
            for (start, size), (following, _) in itertools.pairwise(places)
            if size
        )
    )


@harness.both_suites
def test_arrays_are_those_of_the_bytes_or_an_error(tmp_path, num_cases):
    words = mutations.BINARY_WORDS + mutations.TEXT_WORDS
    headers = mutations.endless_json(9, [_HEADER])
    cases = mutations.endless(9, [_GOOD], words)

    def both():
        for _ in range(num_cases // 2):
            yield next(cases)
            yield _file(next(headers))

    outcome = harness.check(_read, tmp_path / "x", both(), _is_right)
    assert outcome.num_read and outcome.num_refused


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b'{"a": 1, "a": 1}', "a stands twice"),
        (b"[" * 100_000, "its header"),
        (b'{"__metadata__": {"x": 1}}', "__metadata__ must hold texts"),
        (
            b'{"a":{"dtype":"I8","shape":{},"data_offsets":[0,1]}}',
            "a shape that is no list",
        ),
        (
            b'{"a":{"dtype":"I8","shape":[0,1000000000000000000000],'
            b'"data_offsets":[0,0]}}',
            "more or longer axes",
        ),
    ],
)
def test_wrong_headers_are_named(tmp_path, header, message):
    path = tmp_path / "model.safetensors"
    path.write_bytes(_file(header))
    with pytest.raises(ValueError, match=rf"model\.safetensors.*{message}"):
        safetensors_format.Reader(str(path))


@pytest.mark.parametrize("length", [2**60, 2**64 - 1, 10**8])
def test_an_absurd_header_is_an_error(tmp_path, length):
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + _GOOD[8:])
    with pytest.raises(ValueError, match="its header would end at byte"):
        safetensors_format.Reader(str(path))
