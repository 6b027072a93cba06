"""Scaled dot-product attention with dropout, and its gradient.

Source: Vaswani et al. 2017, §3.2.1.
"""

from keras import ops

from modeling import compilation, kernels
from modeling.compilation import Dropout, Tensor

# Source: the release; added to the scores of padding.
_PADDING_SCORE = -10000.0
# Below every score plus padding, so that exp gives 0; finite, so no NaN.
_FUTURE_SCORE = -1e30


def adder_of(input_mask: Tensor, *, causal: bool) -> Tensor:
    """Builds the term that is added to attention scores to hide positions.

    As released: padding gets -10000 rather than minus infinity, so a row
    without tokens attends equally to all of its padding. A causal mask excludes
    later positions completely.

    Args:
        input_mask: `[B, T]`, 1 for a token, 0 for padding.
        causal: each position attends only to itself and those before it.

    Returns:
        `[B, 1, 1, S]`, or `[B, 1, T, S]` if causal; float32.
    """
    padding = 1.0 - ops.cast(input_mask, "float32")
    # Not `[:, None, None]`: no slice of LiteRT adds axes.
    adder = ops.expand_dims(padding, (1, 2)) * _PADDING_SCORE  # [B, 1, 1, S]
    if not causal:
        return adder
    positions = ops.arange(ops.shape(input_mask)[1])
    is_future = positions[None, :] > positions[:, None]  # [T, S]
    return ops.where(is_future, _FUTURE_SCORE, adder)  # [B, 1, T, S]


def attention(
    query: Tensor, key: Tensor, value: Tensor, adder: Tensor, drop: Dropout
) -> Tensor:
    """Computes softmax(query · key / √H + adder) · value.

    Source: Vaswani et al. 2017, equation 1. This is the definition; training
    uses the fused `attend`.

    Args:
        query, key, value: `[B, N, T, H]` float.
        adder: `[B, 1, 1 or T, S]` float32, from `adder_of`.
        drop: rate and seed of the dropout of probabilities; see
            `kernels.dropout`. As released, it drops complete tokens from the
            attended sequence.

    Returns:
        `[B, N, T, H]`, of the type of `value`.
    """
    probs = attention_probs(query, key, adder)  # [B, N, T, S]
    return ops.matmul(kernels.dropout(probs, *drop), value)


def attention_probs(query: Tensor, key: Tensor, adder: Tensor) -> Tensor:
    """Computes softmax(query · key / √H + adder), before dropout.

    Args:
        query, key, adder: as for `attention`.

    Returns:
        `[B, N, T, S]`, of the type of `key`; sums to 1 over S.
    """
    scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
    return _probs(scores, adder, scale=query.shape[-1] ** -0.5)


def _probs(scores, adder, *, scale):
    scaled = ops.cast(scores, "float32") * scale + adder
    return ops.cast(ops.softmax(scaled, axis=-1), scores.dtype)


def attend(
    products: Tensor,
    bias: Tensor,
    adder: Tensor,
    num_heads: int,
    drop: Dropout,
) -> Tensor:
    """Computes `attention` from the products of all heads, without their bias.

    On TensorFlow it has a custom gradient: only the arguments and the
    probabilities before and after dropout are kept for the backward pass, and
    the operations between two products are one compiled pass over memory.

    Args:
        products: `[B, T, 3 * D]` or `[B * T, 3 * D]` float: queries, keys and
            values, without their bias.
        bias: `[3 * D]` float32.
        num_heads: N.
        adder, drop: as for `attention`.

    Returns:
        `[B, T, D]` or `[B * T, D]`, of the type of `products`.
    """
    shape = ops.shape(products)
    batch, length = ops.shape(adder)[0], ops.shape(adder)[-1]
    products = ops.reshape(products, (batch, length, shape[-1]))
    if compilation.is_plain():
        split = split_heads(products, bias, num_heads=num_heads)
        context = _heads_last(attention(*split, adder, drop))
    else:
        context = _attend(products, bias, adder, num_heads, drop)
    return ops.reshape(context, (*shape[:-1], shape[-1] // 3))


def attend_apart(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    adder: Tensor,
    num_heads: int,
    drop: Dropout,
) -> Tensor:
    """Computes `attention` from separate queries, keys and values.

    Args:
        query: `[B, T, D]` or `[B * T, D]` float; or fewer positions of each
            sequence.
        key, value: `[B, S, D]` or `[B * S, D]` float.
        adder, num_heads, drop: as for `attend`.

    Returns:
        As `query`.
    """
    batch = ops.shape(adder)[0]
    shape = ops.shape(query)
    query, key, value = (
        _heads_first(
            ops.reshape(x, (batch, -1, x.shape[-1])), num_heads=num_heads
        )
        for x in (query, key, value)
    )
    context = attention(query, key, value, adder, drop)
    return ops.reshape(_heads_last(context), shape)


def _attend(products, bias, adder, num_heads, drop):
    """Computes `attend` on `[B, T, 3 * D]`, with a custom gradient."""
    rate, seed = drop
    has_dropout = kernels.drops(rate, seed)

    def drop_from(x):
        if not has_dropout:
            return x
        return compilation.compiled(kernels.dropped)(x, seed, rate=rate)

    def compute(products, bias):
        query, key, value = compilation.compiled(split_heads)(
            products, bias, num_heads=num_heads
        )
        scale = query.shape[-1] ** -0.5
        scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
        kept = compilation.compiled(_probs)(scores, adder, scale=scale)
        dropped = drop_from(kept)
        context = ops.matmul(dropped, value)  # [B, N, T, H]

        def gradient(upstream):
            upstream = compilation.compiled(_heads_first)(
                upstream, num_heads=num_heads
            )  # [B, N, T, H]
            d_value = ops.matmul(ops.swapaxes(dropped, 2, 3), upstream)
            d_kept = drop_from(
                ops.matmul(upstream, ops.swapaxes(value, 2, 3))
            )  # [B, N, T, S]
            d_scores = compilation.compiled(_scores_gradient)(
                *(kept, d_kept, context, upstream), scale=scale
            )
            d_query = ops.matmul(d_scores, key)
            d_key = ops.matmul(ops.swapaxes(d_scores, 2, 3), query)
            joined = compilation.compiled(_join)(d_query, d_key, d_value)
            return joined, compilation.compiled(kernels.sum_of_rows)(
                kernels.rows_of(joined)
            )

        return compilation.compiled(_heads_last)(context), gradient

    return compilation.with_gradient(compute, products, bias)


def _scores_gradient(kept, d_kept, context, d_context, *, scale):
    # The sum of kept * d_kept over S, computed as the sum of
    # context * d_context over H, which is shorter.
    along = ops.sum(
        ops.cast(context, "float32") * ops.cast(d_context, "float32"),
        axis=-1,
        keepdims=True,
    )  # [B, N, T, 1]
    slope = ops.cast(d_kept, "float32") - along
    return ops.cast(ops.cast(kept, "float32") * slope * scale, kept.dtype)


def split_heads(
    products: Tensor, bias: Tensor, *, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Adds the bias to `[B, T, 3 * D]` and splits it: three `[B, N, T, H]`."""
    biased = ops.cast(products, "float32") + bias
    biased = ops.cast(biased, products.dtype)
    width = biased.shape[-1] // 3
    query, key, value = (
        _heads_first(
            biased[..., i * width : (i + 1) * width], num_heads=num_heads
        )
        for i in range(3)
    )
    return query, key, value


def _heads_first(x, *, num_heads):
    batch, length, width = ops.shape(x)
    size = width // num_heads
    split = ops.reshape(x, (batch, length, num_heads, size))  # [B, T, N, H]
    return ops.transpose(split, (0, 2, 1, 3))  # [B, N, T, H]


def _heads_last(x):
    batch, count, length, size = ops.shape(x)
    last = ops.transpose(x, (0, 2, 1, 3))  # [B, T, N, H]
    return ops.reshape(last, (batch, length, count * size))  # [B, T, D]


def _join(query, key, value):
    """Joins three `[B, N, T, H]`: `[B, T, 3 * D]`."""
    parts = [_heads_last(part) for part in (query, key, value)]
    return ops.concatenate(parts, axis=-1)
