"""Signatures of rows that a client made."""

import pytest
import tensorflow as tf

from serving import signatures


def _ids_of_client(*ids, max_seq_length=5):
    signature = signatures.of_ids(vars, max_seq_length)
    return signature(*ids)["input_ids"]


def test_rows_of_a_client_are_checked():
    ids = tf.ones([2, 5], tf.int32)
    assert _ids_of_client(ids, ids, ids).numpy().tolist() == [[1] * 5] * 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 4 tok"):
        _ids_of_client(ids, ids, ids, max_seq_length=4)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="segment_ids must have the shape"
    ):
        _ids_of_client(ids, ids, ids[:, :4])
    none = ids[:, :0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="have tokens"):
        _ids_of_client(none, none, none)
