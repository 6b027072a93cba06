"""Bytes of examples, which are protobuf's own."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from bert.records import encoding


def _message(arrays, row):
    message = tf.train.Example()
    for name, values in arrays.items():
        feature = message.features.feature[name]
        is_float = values.dtype.kind == "f"
        stored = feature.float_list if is_float else feature.int64_list
        stored.value.extend(values[row].ravel().tolist())
    return message


def _assert_same(arrays):
    records = encoding.serialize_batch(arrays)
    assert len(records) == len(next(iter(arrays.values())))
    for row, record in enumerate(records):
        message = _message(arrays, row)
        assert record == message.SerializeToString(deterministic=True)


# The first and the last number of each length of a varint.
_EDGES = [
    number
    for bits in range(7, 63, 7)
    for number in (2**bits - 1, 2**bits, 2**bits + 1)
] + [0, 1, -1, -(2**63), 2**63 - 1]


@pytest.mark.parametrize("number", _EDGES)
def test_every_length_of_number(number):
    _assert_same({"x": np.array([[0, number], [number, 3]])})


# Nested messages have lengths of two and three bytes from here on.
@pytest.mark.parametrize("width", [1, 40, 120, 126, 128, 512, 6000])
def test_every_length_of_record(width):
    rng = np.random.default_rng(width)
    _assert_same(
        {
            "ids": rng.integers(0, 30522, (3, width)),
            "mask": rng.integers(0, 2, (3, width)).astype(np.int32),
            "weights": rng.random((3, width)).astype(np.float32),
            "label": rng.integers(0, 2, (3, 1)).astype(np.uint8),
        }
    )


def test_features_come_in_the_order_of_their_names():
    values = np.array([[1], [2]])
    forth = {"A": values, "ab": values, "b": values, "é": values}
    back = dict(reversed(forth.items()))
    _assert_same(forth)
    assert encoding.serialize_batch({"x": np.zeros((0, 4), int)}) == []
    assert encoding.serialize_batch(forth) == encoding.serialize_batch(back)


_INTEGERS = arrays_of.arrays(
    np.int64,
    st.tuples(st.just(3), st.integers(1, 5), st.integers(1, 3)),
)
_FLOATS = arrays_of.arrays(
    np.float32,
    st.tuples(st.just(3), st.integers(1, 5)),
    elements=st.floats(width=32, allow_nan=False),
)


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=9), _INTEGERS | _FLOATS, min_size=1))
def test_any_features(arrays):
    for row, record in enumerate(encoding.serialize_batch(arrays)):
        # protobuf may order names otherwise where one begins another.
        message = _message(arrays, row)
        assert tf.train.Example.FromString(record) == message
        assert len(record) == message.ByteSize()
