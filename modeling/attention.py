"""Scaled dot-product attention with dropout, and its gradient.

Source: Vaswani et al. 2017, §3.2.1.
"""

import dataclasses
from typing import Any

from keras import ops

from modeling import compilation, kernels

# Source: the release; added to the scores of padding.
_PADDING_SCORE = -10000.0
# Below every score plus padding, so that exp gives 0; finite, so no NaN.
_FUTURE_SCORE = -1e30


@dataclasses.dataclass(frozen=True, kw_only=True)
class Heads:
    """How a row divides among heads.

    Attributes:
        count: N.
        size: H.
    """

    count: int
    size: int


def adder_of(input_mask: Any, *, causal: bool) -> Any:
    """Builds what is added to attention scores to hide positions.

    As released: padding is made unlikely by -10000 rather than impossible, so
    a row without any token attends to all of its padding alike. To the right
    nothing is ever seen.

    Args:
        input_mask: `[B, T]`, 1 for a token, 0 for padding.
        causal: each position attends only to itself and those before it.

    Returns:
        `[B, 1, 1, S]`, or `[B, 1, T, S]` if causal; float32.
    """
    padding = 1.0 - ops.cast(input_mask, "float32")
    adder = padding[:, None, None, :] * _PADDING_SCORE  # [B, 1, 1, S]
    if not causal:
        return adder
    positions = ops.arange(ops.shape(input_mask)[1])
    is_future = positions[None, :] > positions[:, None]  # [T, S]
    return ops.where(is_future, _FUTURE_SCORE, adder)  # [B, 1, T, S]


def attention(query: Any, key: Any, value: Any, adder: Any, drop: tuple) -> Any:
    """Computes softmax(query · key / √H + adder) · value.

    Source: Vaswani et al. 2017, equation 1. This is the formula; `attend` is
    its fused twin, which is trained.

    Args:
        query, key, value: `[B, N, T, H]` float.
        adder: `[B, 1, 1 or T, S]` float32, of `adder_of`.
        drop: rate and seed of the dropout of probabilities; see
            `kernels.dropout`. As released, whole tokens are dropped from what
            is attended to.

    Returns:
        `[B, N, T, H]`, of the type of `value`.
    """
    scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
    probs = _probs(scores, adder, scale=query.shape[-1] ** -0.5)
    return ops.matmul(kernels.dropout(probs, *drop), value)


def attend(
    products: Any, bias: Any, adder: Any, heads: Heads, drop: tuple
) -> Any:
    """As `attention`, of heads that stand side by side and lack their bias.

    On TensorFlow it brings its own gradient: between forward and backward pass
    only the arguments, the probabilities and their dropped twins are kept, and
    what lies between two products is one compiled pass over memory.

    Args:
        products: `[B, T, 3 * D]` float: queries, keys and values, without
            their bias.
        bias: `[3 * D]` float32.
        adder, drop: as for `attention`.
        heads: how D is made up.

    Returns:
        `[B, T, D]`, of the type of `products`.
    """
    if not compilation.is_tensorflow():
        split = _split(products, bias, count=heads.count, size=heads.size)
        return _heads_last(attention(*split, adder, drop))
    rate, seed = drop
    has_dropout = kernels.drops(rate, seed)

    def drop_from(x):
        if not has_dropout:
            return x
        return compilation.compiled(kernels.dropped)(x, seed, rate=rate)

    def compute(products, bias):
        query, key, value = compilation.compiled(_split)(
            products, bias, count=heads.count, size=heads.size
        )
        scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
        kept = compilation.compiled(_probs)(
            scores, adder, scale=heads.size**-0.5
        )
        dropped = drop_from(kept)
        context = ops.matmul(dropped, value)  # [B, N, T, H]

        def gradient(upstream):
            upstream = compilation.compiled(_heads_first)(
                upstream, count=heads.count, size=heads.size
            )  # [B, N, T, H]
            d_value = ops.matmul(ops.swapaxes(dropped, 2, 3), upstream)
            d_kept = drop_from(
                ops.matmul(upstream, ops.swapaxes(value, 2, 3))
            )  # [B, N, T, S]
            d_scores = compilation.compiled(_scores_gradient)(
                *(kept, d_kept, context, upstream), scale=heads.size**-0.5
            )
            d_query = ops.matmul(d_scores, key)
            d_key = ops.matmul(ops.swapaxes(d_scores, 2, 3), query)
            joined = compilation.compiled(_join)(d_query, d_key, d_value)
            return joined, compilation.compiled(kernels.sum_of_rows)(
                kernels.rows_of(joined)
            )

        return compilation.compiled(_heads_last)(context), gradient

    return compilation.with_gradient(compute, products, bias)


def attention_probs(products: Any, bias: Any, adder: Any, heads: Heads) -> Any:
    """Computes where each position looks, before dropout.

    Args:
        products, bias, adder, heads: as for `attend`.

    Returns:
        `[B, N, T, S]`, of the type of `products`; sums to 1 over S.
    """
    query, key, _ = _split(products, bias, count=heads.count, size=heads.size)
    scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
    return _probs(scores, adder, scale=heads.size**-0.5)


def _split(products, bias, *, count, size):
    """Makes three `[B, N, T, H]` of `[B, T, 3 * D]`."""
    biased = ops.cast(products, "float32") + bias
    biased = ops.cast(biased, products.dtype)
    width = count * size
    return tuple(
        _heads_first(
            biased[..., i * width : (i + 1) * width], count=count, size=size
        )
        for i in range(3)
    )


def _heads_first(x, *, count, size):
    batch, length = ops.shape(x)[:2]
    split = ops.reshape(x, (batch, length, count, size))  # [B, T, N, H]
    return ops.transpose(split, (0, 2, 1, 3))  # [B, N, T, H]


def _heads_last(x):
    batch, count, length, size = ops.shape(x)
    last = ops.transpose(x, (0, 2, 1, 3))  # [B, T, N, H]
    return ops.reshape(last, (batch, length, count * size))  # [B, T, D]


def _join(query, key, value):
    """Makes `[B, T, 3 * D]` of three `[B, N, T, H]`."""
    parts = [_heads_last(part) for part in (query, key, value)]
    return ops.concatenate(parts, axis=-1)


def _probs(scores, adder, *, scale):
    scaled = ops.cast(scores, "float32") * scale + adder
    return ops.cast(ops.softmax(scaled, axis=-1), scores.dtype)


def _scores_gradient(kept, d_kept, context, d_context, *, scale):
    # The gradient along each row of probabilities: their mean over S, which
    # is that of what they gather, over H.
    along = ops.sum(
        ops.cast(context, "float32") * ops.cast(d_context, "float32"),
        axis=-1,
        keepdims=True,
    )  # [B, N, T, 1]
    slope = ops.cast(d_kept, "float32") - along
    return ops.cast(ops.cast(kept, "float32") * slope * scale, kept.dtype)
