"""Embeddings of texts, as sentence-transformers computes them.

Source: sentence-transformers 2 to 5: its modules Pooling and Normalize, and
its similarity functions.
"""

import tensorflow as tf

from bert.models import sentence_encoder

# 1e-9 and 1e-12 avoid division by zero; sentence-transformers has the same.
_LEAST_COUNT, _LEAST_LENGTH = 1e-9, 1e-12


def embed(
    hidden: tf.Tensor,
    input_mask: tf.Tensor,
    encoder: sentence_encoder.SentenceEncoder,
) -> tf.Tensor:
    """Pools the last hidden states of texts.

    Args:
        hidden: `[B, T, D]` float32.
        input_mask: `[B, T]` int32, 0 for padding.
        encoder: the pooling, and whether embeddings have the length 1.

    Returns:
        `[B, D]` float32.
    """
    is_token = (input_mask > 0)[..., tf.newaxis]  # [B, T, 1]
    if encoder.pooling == sentence_encoder.MEAN:
        weights = tf.cast(is_token, hidden.dtype)
        counts = tf.reduce_sum(weights, axis=1)  # [B, 1]
        sums = tf.reduce_sum(hidden * weights, axis=1)  # [B, D]
        embedding = sums / tf.maximum(counts, _LEAST_COUNT)
    elif encoder.pooling == sentence_encoder.MAX:
        tokens = tf.where(is_token, hidden, hidden.dtype.min)
        embedding = tf.reduce_max(tokens, axis=1)  # [B, D]
    else:
        embedding = hidden[:, 0]  # [B, D]
    return _unit_length(embedding) if encoder.normalize else embedding


def similarity(first: tf.Tensor, second: tf.Tensor, kind: str) -> tf.Tensor:
    """Compares embeddings, pair by pair.

    Args:
        first, second: `[B, D]` float32.
        kind: `cosine` or `dot`.

    Returns:
        `[B]` float32.
    """
    if kind == sentence_encoder.COSINE:
        first, second = _unit_length(first), _unit_length(second)
    return tf.reduce_sum(first * second, axis=-1)


def _unit_length(vectors: tf.Tensor) -> tf.Tensor:
    length = tf.norm(vectors, axis=-1, keepdims=True)  # [B, 1]
    return vectors / tf.maximum(length, _LEAST_LENGTH)
