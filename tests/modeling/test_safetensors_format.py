"""The safetensors format: bytes by hand, round trips, broken files."""

import io
import json
import struct

import ml_dtypes
import numpy as np
import pytest

from modeling import safetensors_format as safetensors


def _file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def _write(arrays, metadata=None):
    file = io.BytesIO()
    specs = {n: (a.shape, a.dtype.name) for n, a in arrays.items()}
    safetensors.write(file, specs, arrays.__getitem__, metadata or {})
    return file.getvalue()


def test_a_file_written_by_hand_is_read(tmp_path):
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "I64", "shape": [], "data_offsets": [6, 14]},
        "a": {"dtype": "F16", "shape": [1, 3], "data_offsets": [0, 6]},
    }
    data = np.array([1, 2, 3], "<f2").tobytes() + struct.pack("<q", -7)
    reader = safetensors.Reader(_file(tmp_path / "x", header, data))
    assert reader.metadata == {"format": "pt"}
    assert {n: (e.shape, e.dtype) for n, e in reader.entries.items()} == {
        "a": ((1, 3), "float16"),
        "b": ((), "int64"),
    }
    np.testing.assert_array_equal(reader.read("a"), [[1, 2, 3]])
    assert reader.read("b") == -7
    reader.close()


def test_bytes_are_those_of_the_format():
    data = _write({"a": np.array([1], np.int8), "b": np.array(2, np.int32)})
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {
        "b": {"dtype": "I32", "shape": [], "data_offsets": [0, 4]},
        "a": {"dtype": "I8", "shape": [1], "data_offsets": [4, 5]},
    }
    assert data[8 + length :] == b"\x02\0\0\0\x01"


@pytest.mark.parametrize(
    "dtype",
    [
        *(np.bool_, np.uint8, np.int8, np.uint16, np.int16, np.float16),
        *(ml_dtypes.bfloat16, np.uint32, np.int32, np.float32),
        *(np.uint64, np.int64, np.float64),
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3, 5)])
def test_what_is_written_is_read(tmp_path, dtype, shape):
    rng = np.random.default_rng(1)
    array = np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    arrays = {"x": array, "transposed": array.T, "odd": np.ones(3, np.int8)}
    (tmp_path / "x").write_bytes(_write(arrays, {"note": "é"}))
    reader = safetensors.Reader(str(tmp_path / "x"))
    assert reader.metadata == {"note": "é"}
    for name, want in arrays.items():
        got = reader.read(name)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes()


def test_every_shorter_file_is_refused(tmp_path):
    whole = _write({"a": np.arange(3, dtype=np.int16)})
    for size in range(len(whole)):
        (tmp_path / "x").write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is cut short, or no safetens"):
            safetensors.Reader(str(tmp_path / "x"))


def _entry(**changes):
    return {"dtype": "I8", "shape": [2], "data_offsets": [0, 2], **changes}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "its header"),
        ([1], "its header"),
        ({"a": {"dtype": "I8"}}, "its header"),
        ({"a": _entry(dtype="F8")}, "a is of the unknown type F8"),
        ({"a": _entry(shape=[3])}, r"a \[3\] of int8 cannot take 2 bytes"),
        ({"a": _entry(shape=[-1, -2])}, "no count"),
        ({"a": _entry(data_offsets=[1, 3])}, "a begins at"),
        ({"a": _entry(), "b": _entry()}, "b begins at"),
        ({"a": _entry(shape=[1], data_offsets=[0, 1])}, "arrays end at byte"),
    ],
)
def test_a_header_that_is_wrong_is_named(tmp_path, header, message):
    with pytest.raises(ValueError, match=message):
        safetensors.Reader(_file(tmp_path / "x", header, b"\0\0"))


def test_a_header_longer_than_the_file_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    with pytest.raises(ValueError, match="its header would end at byte"):
        safetensors.Reader(str(tmp_path / "x"))


def test_a_type_without_a_code_is_refused():
    with pytest.raises(ValueError, match="x is of complex64"):
        _write({"x": np.zeros(2, np.complex64)})
