"""Cross entropy, and the one over a vocabulary that shares its embeddings."""

from typing import Any

import keras
from keras import ops

from modeling import compilation

# Of fewer digits than these a probability is no gradient: float16 ends at
# 6e-8, below that of most words.
_WIDE_TYPES = ("float32", "bfloat16")


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Computes the cross entropy of each item.

    Args:
        logits: `[..., K]` float32, unnormalised.
        labels: `[...]` int, in [0, K).

    Returns:
        `[...]` float32, nats.
    """
    if not compilation.is_tensorflow():
        return ops.sparse_categorical_crossentropy(
            labels, logits, from_logits=True
        )
    import tensorflow as tf

    labels = ops.cast(labels, "int32")

    def compute(logits):
        log_sum = compilation.compiled(_log_sum_exp)(logits)  # [..., 1]
        chosen = tf.gather(logits, labels, batch_dims=len(labels.shape))

        def gradient(upstream):
            return compilation.compiled(_slope)(
                logits, labels, log_sum, upstream
            )

        return log_sum[..., 0] - chosen, gradient

    return compilation.with_gradient(compute, logits)


def tied_cross_entropy(
    hidden: Any, table: Any, bias: Any, labels: Any
) -> tuple[Any, Any]:
    """Computes the cross entropy of words whose logits are tied to a table.

    Over a vocabulary this is most of a small model's step: on TensorFlow it
    keeps neither logits nor their gradient in float32, and goes over them
    less often.

    Args:
        hidden: `[M, D]` float; its type is that of the products.
        table: `[V, D]` float32.
        bias: `[V]` float32.
        labels: `[M]` int, in [0, V).

    Returns:
        `[M]` float32, nats; `[M]` float32, 1 where the label is the best word.
    """
    labels = ops.cast(labels, "int32")
    dtype = keras.backend.standardize_dtype(hidden.dtype)
    if compilation.is_tensorflow() and dtype in _WIDE_TYPES:
        losses, best = compilation.with_gradient(
            lambda *tensors: _tied(*tensors, labels), hidden, table, bias
        )
    else:
        logits = tied_logits(hidden, table, bias)
        losses = cross_entropy(logits, labels)
        best = ops.argmax(logits, axis=-1)
    is_best = ops.equal(ops.cast(best, "int32"), labels)
    return losses, ops.cast(is_best, "float32")


def tied_logits(hidden: Any, table: Any, bias: Any) -> Any:
    """Multiplies `[..., D]` by `[V, D]`, adds `[V]`: `[..., V]` float32."""
    product = ops.matmul(hidden, ops.transpose(ops.cast(table, hidden.dtype)))
    return ops.cast(product, "float32") + bias


def _tied(hidden, table, bias, labels):
    import tensorflow as tf

    dtype = hidden.dtype
    narrow = tf.cast(table, dtype)  # [V, D]
    # As one operation with its product, which "+" is not.
    logits = tf.nn.bias_add(
        tf.matmul(hidden, narrow, transpose_b=True), tf.cast(bias, dtype)
    )  # [M, V]
    probs = tf.nn.softmax(logits)  # [M, V]
    # TensorFlow looks through float32 faster than through bfloat16.
    wide = tf.cast(logits, tf.float32)
    best = tf.argmax(wide, axis=-1, output_type=tf.int32)  # [M]

    def entries(matrix, columns):
        return tf.cast(tf.gather(matrix, columns, batch_dims=1), tf.float32)

    # The log of the sum over all words, by way of the best one's share.
    log_sum = entries(logits, best) - tf.math.log(entries(probs, best))

    def gradient(upstream, _):
        # The slope of the logits, (probs - one_hot) * upstream, is not made:
        # its two parts are multiplied apart, the second without a product.
        weight = tf.cast(upstream, dtype)[:, tf.newaxis]  # [M, 1]
        mean = tf.cast(tf.matmul(probs, narrow), tf.float32)  # [M, D]
        d_hidden = upstream[:, tf.newaxis] * (mean - tf.gather(table, labels))
        weighted = weight * hidden  # [M, D]
        d_table = tf.matmul(probs, weighted, transpose_a=True)  # [V, D]
        d_bias = tf.matmul(weight, probs, transpose_a=True)[0]  # [V]

        def minus_labels(total, rows):
            return tf.tensor_scatter_nd_sub(
                tf.cast(total, tf.float32),
                labels[:, tf.newaxis],
                tf.cast(rows, tf.float32),
            )

        return (
            tf.cast(d_hidden, dtype),
            minus_labels(d_table, weighted),
            minus_labels(d_bias, weight[:, 0]),
        )

    return (log_sum - entries(logits, labels), best), gradient


def _log_sum_exp(logits):
    largest = ops.max(logits, axis=-1, keepdims=True)
    total = ops.sum(ops.exp(logits - largest), axis=-1, keepdims=True)
    return largest + ops.log(total)


def _slope(logits, labels, log_sum, upstream):
    classes = ops.arange(ops.shape(logits)[-1], dtype="int32")
    target = ops.cast(classes == labels[..., None], logits.dtype)
    return (ops.exp(logits - log_sum) - target) * upstream[..., None]
