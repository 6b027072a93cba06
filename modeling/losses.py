"""Training losses.

A loss is computed in two steps: one number for each item, in float32, and
their average. The denominator is that of the full batch, so that the losses of
its parts, on several replicas or in several micro-batches, add up to its loss.
"""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf
from keras import ops

from modeling.tensor_types import Tensor

# Losses and best words, and their gradient.
_LossesAndGradient: TypeAlias = tuple[
    tuple[Tensor, Tensor],
    Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]],
]
# Source: run_pretraining.py of the release. It makes the loss 0 for a batch
# without predictions, and otherwise slightly smaller than the mean.
MASKED_LM_OFFSET = 1e-5


def masked_lm_loss(
    token_losses: Tensor, weights: Tensor, denominator: Tensor
) -> Tensor:
    """Averages the cross entropy of the predicted tokens.

    Source: Devlin et al. 2019, §3.1 Task #1 and App. A.2.

    Args:
        token_losses: `[B, P]` float32, of `tied_cross_entropy`.
        weights: `[B, P]` float32, 1 for a real prediction, 0 for padding.
        denominator: `[]` float32, the sum of the weights of the full batch.

    Returns:
        `[]` float32, nats per prediction.
    """
    return ops.sum(token_losses * weights) / (denominator + MASKED_LM_OFFSET)


def mean_loss(
    item_losses: Tensor, weights: Tensor, denominator: Tensor
) -> Tensor:
    """Averages the loss of sentences, of pairs, of answers or of words.

    Args:
        item_losses: `[...]` float32.
        weights: `[...]` float32, 0 for an item that pads the batch.
        denominator: `[]` float32, the sum of the weights of the full batch.

    Returns:
        `[]` float32; 0 if all weights are 0.
    """
    return ops.divide_no_nan(ops.sum(item_losses * weights), denominator)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Computes -log(softmax(logits)[label]) of each item.

    Args:
        logits: `[..., K]` float, unnormalized.
        labels: `[...]` int, in [0, K).

    Returns:
        `[...]` float32, nats.
    """
    log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
    labels = ops.cast(labels, "int32")[..., None]
    return -ops.take_along_axis(log_probs, labels, axis=-1)[..., 0]


def span_cross_entropy(
    logits: tuple[Tensor, Tensor], positions: tuple[Tensor, Tensor]
) -> Tensor:
    """Computes the mean cross entropy of an answer's start and end.

    Source: Devlin et al. 2019, §4.2; the mean of the two as released.

    Args:
        logits: start and end, each `[B, T]` float, unnormalized.
        positions: start and end, each `[B]` int, in [0, T).

    Returns:
        `[B]` float32, nats per position.
    """
    start, end = map(cross_entropy, logits, positions)
    return 0.5 * (start + end)


def multi_label_cross_entropy(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Computes the mean binary cross entropy of an item's labels.

    Args:
        logits: `[B, K]` float32, unnormalized.
        labels: `[B, K]` float32, each 0 or 1.
        weights: `[B, K]` float32, the weight of each label; None for 1.

    Returns:
        `[B]` float32, nats per label.
    """
    label_losses = ops.binary_crossentropy(
        labels, logits, from_logits=True
    )  # [B, K]
    if weights is None:
        return ops.mean(label_losses, axis=-1)
    return ops.sum(label_losses * weights, axis=-1) / ops.sum(weights, axis=-1)


def squared_error(scores: Tensor, targets: Tensor) -> Tensor:
    """Computes the squared error of each score: `[B]` float32 of two `[B]`."""
    return ops.square(scores - targets)


def tied_logits(hidden: Tensor, table: Tensor, bias: Tensor) -> Tensor:
    """Multiplies `[M, D]` by `[V, D]`, adds `[V]`: `[M, V]` float32."""
    narrow = tf.cast(table, hidden.dtype)
    product = tf.matmul(hidden, narrow, transpose_b=True)
    return tf.cast(product, tf.float32) + bias


def tied_cross_entropy(
    hidden: Tensor, table: Tensor, bias: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Computes the cross entropy of words with tied output weights.

    Neither float32 logits nor their gradient are computed, which would dominate
    the step of a small model. In float16 they are, because the probability of
    most words is smaller than its smallest number, 6e-8.

    Args:
        hidden: `[M, D]` float; its type is that of the products.
        table: `[V, D]` float32, the word embeddings.
        bias: `[V]` float32.
        labels: `[M]` int, in [0, V).

    Returns:
        `[M]` float32, nats; `[M]` float32, 1 where the label has the highest
        logit.
    """
    labels = tf.cast(labels, tf.int32)
    if hidden.dtype == tf.float16:
        logits = tied_logits(hidden, table, bias)
        losses = cross_entropy(logits, labels)
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    else:

        @tf.custom_gradient
        def compute(*tensors: Tensor) -> _LossesAndGradient:
            return _tied(*tensors, labels=labels)

        # Variables are read here: inside they would count as arguments too.
        losses, best = compute(
            *map(tf.convert_to_tensor, (hidden, table, bias))
        )
    return losses, tf.cast(best == labels, tf.float32)


def _tied(
    hidden: Tensor, table: Tensor, bias: Tensor, *, labels: Tensor
) -> _LossesAndGradient:
    dtype = hidden.dtype
    narrow = tf.cast(table, dtype)  # [V, D]
    # TensorFlow fuses `bias_add` with the product, unlike "+".
    logits = tf.nn.bias_add(
        tf.matmul(hidden, narrow, transpose_b=True), tf.cast(bias, dtype)
    )  # [M, V]
    probs = tf.nn.softmax(logits)  # [M, V]
    # `argmax` is faster in float32 than in bfloat16.
    wide = tf.cast(logits, tf.float32)
    best = tf.argmax(wide, axis=-1, output_type=tf.int32)  # [M]

    def entries(matrix: Tensor, columns: Tensor) -> Tensor:
        return tf.cast(tf.gather(matrix, columns, batch_dims=1), tf.float32)

    # The log of the sum over all words, from the probability of the best.
    log_sum = entries(logits, best) - tf.math.log(entries(probs, best))

    def gradient(upstream: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # The gradient of the logits, (probs - one_hot) * upstream, is never
        # materialized: its terms are multiplied separately, and the second
        # needs no matrix product.
        weight = tf.cast(upstream, dtype)[:, tf.newaxis]  # [M, 1]
        mean = tf.cast(tf.matmul(probs, narrow), tf.float32)  # [M, D]
        d_hidden = upstream[:, tf.newaxis] * (mean - tf.gather(table, labels))
        weighted = weight * hidden  # [M, D]
        d_table = tf.matmul(probs, weighted, transpose_a=True)  # [V, D]
        d_bias = tf.matmul(weight, probs, transpose_a=True)[0]  # [V]

        def minus_labels(total: Tensor, rows: Tensor) -> Tensor:
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
