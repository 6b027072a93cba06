"""Embeddings of texts and their similarity, worked by hand."""

import numpy as np
import pytest
import tensorflow as tf

from bert.models import sentence_encoder
from bert.tasks.embedding import pooling

# Two texts of three tokens, the second with a token of padding.
_HIDDEN = tf.constant(
    [
        [[1.0, 2.0], [3.0, -4.0], [5.0, 8.0]],
        [[-3.0, 0.0], [-1.0, -8.0], [90.0, 90.0]],
    ]
)
_MASK = tf.constant([[1, 1, 1], [1, 1, 0]])


def _embed(kind, *, normalize=False, mask=_MASK):
    encoder = sentence_encoder.SentenceEncoder(
        pooling=kind, normalize=normalize, similarity="cosine"
    )
    return pooling.embed(_HIDDEN, mask, encoder).numpy()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("mean", [[3.0, 2.0], [-2.0, -4.0]]),
        ("max", [[5.0, 8.0], [-1.0, 0.0]]),
        ("cls", [[1.0, 2.0], [-3.0, 0.0]]),
    ],
)
def test_padding_is_in_no_embedding(kind, expected):
    np.testing.assert_array_equal(_embed(kind), expected)


def test_a_normalized_embedding_has_the_length_1():
    got = _embed("mean", normalize=True)
    expected = [
        np.array([3.0, 2.0]) / 13**0.5,
        np.array([-2.0, -4.0]) / 20**0.5,
    ]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_row_without_tokens_has_a_finite_embedding():
    none = tf.zeros_like(_MASK)
    assert not _embed("mean", mask=none, normalize=True).any()
    assert np.isfinite(_embed("max", mask=none)).all()


@pytest.mark.parametrize(
    ("kind", "expected"), [("cosine", [0.6, -1.0]), ("dot", [9.0, -2.0])]
)
def test_a_similarity_is_that_of_the_embeddings_of_a_pair(kind, expected):
    first = tf.constant([[3.0, 4.0], [1.0, 0.0]])
    second = tf.constant([[3.0, 0.0], [-2.0, 0.0]])
    got = pooling.similarity(first, second, kind).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_text_is_similar_to_itself_by_1_whatever_its_length():
    vectors = tf.constant([[2e-4, 1e-4], [3e4, -2e4]])
    got = pooling.similarity(vectors, vectors, "cosine").numpy()
    np.testing.assert_allclose(got, [1.0, 1.0], rtol=1e-6)
    nothing = pooling.similarity(0 * vectors, vectors, "cosine").numpy()
    assert nothing.tolist() == [0.0, 0.0]
