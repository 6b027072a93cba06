"""Arithmetic on rows, between the matrix products of a layer.

All arithmetic is in float32; inputs and results have the type of the input.
For large tensors, the backward pass computes intermediate values again, so only
the arguments are kept for it.
"""

import functools
import math
from collections.abc import Callable

import keras
from keras import ops

from modeling import compilation
from modeling.compilation import Dropout, Tensor

# Source: the release (tf.contrib.layers.layer_norm).
LAYER_NORM_EPSILON = 1e-12
_DRAWS = 1 << 32
# Source: a search for 32-bit mixers of low bias, C. Wellons,
# github.com/skeeto/hash-prospector: shifts and factors of one round.
_MIX = ((16, 0x7FEB352D), (15, 0x846CA68B))
_LAST_SHIFT = 16
# Two arbitrary numbers: bits of the golden ratio and of the square root of 3.
_KEY_STARTS = (0x9E3779B9, 0xBB67AE85)


def dropout(x: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    """Zeroes a share of the elements and scales up the rest.

    Args:
        x: float, of any shape.
        rate: share to zero, in [0, 1).
        seed: `[n]` int32, or None to leave `x` as it is.

    Returns:
        As `x`; seed and shape determine which elements are zero.

    Raises:
        RuntimeError: the backend is neither TensorFlow nor JAX.
    """
    if not drops(rate, seed):
        return x
    return compilation.fused(dropped, x, constants=(seed,), rate=rate)


def drops(rate: float, seed: Tensor | None) -> bool:
    """Returns whether dropout zeroes any element.

    Raises:
        RuntimeError: it does, and the backend does not support it.
    """
    if seed is None or round(rate * _DRAWS) == 0:
        return False
    if keras.backend.backend() not in ("tensorflow", "jax"):
        raise RuntimeError(
            "Training with dropout needs the Keras backend tensorflow or jax; "
            f"got {keras.backend.backend()}. Without a dropout_seed the model "
            "runs on any backend."
        )
    return True


def dropped(x: Tensor, seed: Tensor, *, rate: float) -> Tensor:
    """Computes `dropout` with a seed, by its plain formula."""
    threshold = ops.cast(_threshold(rate), "uint32")
    kept = _random_words(ops.shape(x), seed) >= threshold
    scaled = ops.cast(x, "float32") * dropout_scale(rate)
    return ops.cast(ops.where(kept, scaled, 0.0), x.dtype)


def dropout_scale(rate: float) -> float:
    """Returns the factor of the elements that dropout keeps."""
    return _DRAWS / (_DRAWS - _threshold(rate))


def _threshold(rate):
    return min(round(rate * _DRAWS), _DRAWS - 1)


def site_seed(seed: Tensor | None, site: int) -> Tensor | None:
    """Derives the seed of one dropout site from the seed of a step.

    Args:
        seed: `[2]` int32, or None.
        site: number of the site, from 0; each is used once.

    Returns:
        `[3]` int32, the seed for `dropout`; None without a seed.
    """
    if seed is None:
        return None
    number = ops.convert_to_tensor([site], dtype="int32")
    return ops.concatenate([ops.cast(seed, "int32"), number], axis=0)


def _random_words(shape, seed):
    """Returns 32 random bits per element: a hash of its position and the seed.

    It takes half the time of a pass over memory. A generator such as Philox
    takes longer than all other operations at the end of a block.
    """
    width = shape[-1] if len(shape) else 1
    # Two ranges, because the places may exceed int32.
    row, column = (
        ops.cast(ops.arange(size, dtype="int32"), "uint32")
        for size in (math.prod(shape[:-1]), width)
    )
    words = row[:, None] * ops.cast(width, "uint32") + column
    keys = _keys(seed)
    for i in range(len(_KEY_STARTS)):
        words = _mixed(ops.bitwise_xor(words, keys[i]))
    return ops.reshape(words, shape)


def _keys(seed):
    """Hashes `[n]` int32 into one word for each of `_KEY_STARTS`."""
    seed = ops.cast(seed, "uint32")
    keys = ops.array(_KEY_STARTS, "uint32")
    for i in range(seed.shape[0]):
        keys = _mixed(ops.bitwise_xor(keys, seed[i]) + keys)
    return keys


def _mixed(words):
    """Maps 32 bits to 32 bits, one to one; each bit depends on all others."""
    for shift, factor in _MIX:
        words = ops.bitwise_xor(words, ops.right_shift(words, shift))
        words = words * ops.cast(factor, "uint32")
    return ops.bitwise_xor(words, ops.right_shift(words, _LAST_SHIFT))


def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Normalizes each row to mean 0 and variance 1, then scales and shifts.

    Args:
        x: `[..., D]` float.
        gamma: `[D]` float32.
        beta: `[D]` float32.

    Returns:
        `[..., D]`, of the type of `x`.
    """
    y = compilation.fused(_norm, rows_of(x), gamma, beta)
    return _reshaped_like(y, x)


def _norm(x, gamma, beta):
    normal = _normalized(ops.cast(x, "float32"))
    return ops.cast(normal * gamma + beta, x.dtype)


def block_end(
    x: Tensor,
    bias: Tensor,
    residual: Tensor,
    norm: tuple[Tensor, Tensor],
    drop: Dropout,
) -> Tensor:
    """Applies bias, dropout, residual connection and normalization.

    Args:
        x: `[..., D]` float, the block's last product.
        bias: `[D]` float32.
        residual: `[..., D]` float, the block's input.
        norm: gamma and beta, each `[D]` float32.
        drop: rate and seed, as for `dropout`.

    Returns:
        `[..., D]`, of the type of `x`.
    """
    rate, seed = drop
    if compilation.is_forward_only():
        x = dropout(biased(x, bias), rate, seed)
        return layer_norm(x + residual, *norm)
    if not drops(rate, seed):
        rate, seed = 0.0, ops.zeros([1], "int32")
    y = compilation.fused(
        _block_end,
        *(rows_of(x), bias, rows_of(residual), *norm),
        constants=(seed,),
        rate=rate,
    )
    return _reshaped_like(y, x)


def _block_end(*tensors, rate):
    x, bias, residual, gamma, beta, seed = tensors
    rows = ops.cast(x, "float32") + bias
    if rate:
        rows = dropped(rows, seed, rate=rate)
    normal = _normalized(rows + ops.cast(residual, "float32"))
    return ops.cast(normal * gamma + beta, x.dtype)


def _normalized(rows):
    centered = rows - ops.mean(rows, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
    return centered * ops.rsqrt(variance + LAYER_NORM_EPSILON)


def activate(x: Tensor, bias: Tensor, activation: str | Callable) -> Tensor:
    """Adds a bias and applies a member of `config.ACTIVATIONS`, or a function.

    Args:
        x: `[..., D]` float.
        bias: `[D]` float32.
        activation: its name, or a function from tensor to tensor.

    Returns:
        `[..., D]`, of the type of `x`.
    """
    if callable(activation):
        return activation(biased(x, bias))
    if compilation.is_forward_only():
        return _ACTIVATIONS[activation](biased(x, bias))
    y = compilation.fused(_activated, rows_of(x), bias, activation=activation)
    return _reshaped_like(y, x)


def _activated(x, bias, *, activation):
    rows = ops.cast(x, "float32") + bias
    return ops.cast(_ACTIVATIONS[activation](rows), x.dtype)


def biased(x: Tensor, bias: Tensor) -> Tensor:
    """Adds `[D]` float32 to `[..., D]`, in the type of `x`."""
    return compilation.sum_with_bias(x, ops.cast(bias, x.dtype))


_ACTIVATIONS = {
    # As released: the tanh form, which differs from erf by up to 4.7e-4.
    "gelu": functools.partial(ops.gelu, approximate=True),
    "gelu_exact": functools.partial(ops.gelu, approximate=False),
    "linear": lambda x: x,
    "relu": ops.relu,
    "tanh": ops.tanh,
}


def rows_of(x: Tensor) -> Tensor:
    """Reshapes `[..., D]` to `[M, D]`.

    Not within compiled functions: XLA sums a matrix 20 times as fast as a
    tensor that it reshapes to one.
    """
    return x if len(x.shape) == 2 else ops.reshape(x, (-1, x.shape[-1]))


def _reshaped_like(rows, x):
    return rows if len(x.shape) == 2 else ops.reshape(rows, ops.shape(x))


def sum_of_rows(x: Tensor) -> Tensor:
    """Sums the rows of `[M, D]`: `[D]` float32."""
    return ops.sum(ops.cast(x, "float32"), axis=0)
