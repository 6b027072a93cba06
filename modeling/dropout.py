"""Dropout whose pattern is a function of a seed and of positions.

A mask is the same on every device, compiled or not, and is computed again in
the backward pass instead of being kept.
"""

import math

import tensorflow as tf
from keras import ops

from modeling import compilation
from modeling.tensor_types import Tensor

_DRAWS = 1 << 32
# Source: a search for 32-bit mixers of low bias, C. Wellons,
# github.com/skeeto/hash-prospector: shifts and factors of one round.
_MIX = ((16, 0x7FEB352D), (15, 0x846CA68B))
_LAST_SHIFT = 16
# Two arbitrary numbers: bits of the golden ratio and of the square root of 3.
_KEY_STARTS = (0x9E3779B9, 0xBB67AE85)
_NO_SEED = (0,)


def dropout(x: Tensor, rate: float, seed: Tensor | None) -> Tensor:
    """Zeroes a share of the elements and scales up the rest.

    Args:
        x: float, of any shape.
        rate: share to zero, in [0, 1).
        seed: `[n]` int32, or None to leave `x` as it is.

    Returns:
        As `x`; seed and shape determine which elements are zero.
    """
    rate, seed = rate_and_seed(rate, seed)
    return _dropout(x, seed, rate=rate) if rate else x


@compilation.fused
def _dropout(x: Tensor, seed: Tensor, *, rate: float) -> Tensor:
    return tf.cast(dropped(tf.cast(x, tf.float32), seed, rate), x.dtype)


def rate_and_seed(rate: float, seed: Tensor | None) -> tuple[float, Tensor]:
    """Returns the arguments of `dropped`: a rate of 0 if nothing is dropped."""
    if seed is None or round(rate * _DRAWS) == 0:
        return 0.0, tf.constant(_NO_SEED)
    return rate, seed


def dropped(x: Tensor, seed: Tensor, rate: float) -> Tensor:
    """Applies dropout inside another compiled formula: float32 as `x`."""
    if not rate:
        return x
    threshold = min(round(rate * _DRAWS), _DRAWS - 1)
    kept = _random_words(ops.shape(x), seed) >= tf.constant(
        threshold, tf.uint32
    )
    return tf.where(kept, x * (_DRAWS / (_DRAWS - threshold)), 0.0)


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
    return tf.concat([tf.cast(seed, tf.int32), [site]], axis=0)


def _random_words(shape: tuple[int, ...], seed: Tensor) -> Tensor:
    # A hash of position and seed takes half the time of a pass over memory.
    # Philox takes longer than all other operations at the end of a block.
    width = shape[-1] if len(shape) else 1
    # Two ranges, because the number of elements may exceed int32.
    row, column = (
        tf.cast(tf.range(size), tf.uint32)
        for size in (math.prod(shape[:-1]), width)
    )
    words = row[:, None] * tf.cast(width, tf.uint32) + column
    for key in tf.unstack(_keys(seed)):
        words = _mixed(tf.bitwise.bitwise_xor(words, key))
    return tf.reshape(words, shape)


def _keys(seed: Tensor) -> Tensor:
    """Hashes `[n]` int32 into one word for each of `_KEY_STARTS`."""
    seed = tf.cast(seed, tf.uint32)
    keys = tf.constant(_KEY_STARTS, tf.uint32)
    for word in tf.unstack(seed):
        keys = _mixed(tf.bitwise.bitwise_xor(keys, word) + keys)
    return keys


def _mixed(words: Tensor) -> Tensor:
    """Maps 32 bits to 32 bits, one to one; each bit depends on all others."""
    for shift, factor in _MIX:
        shifted = tf.bitwise.right_shift(words, tf.constant(shift, tf.uint32))
        words = tf.bitwise.bitwise_xor(words, shifted)
        words = words * tf.constant(factor, tf.uint32)
    shifted = tf.bitwise.right_shift(words, tf.constant(_LAST_SHIFT, tf.uint32))
    return tf.bitwise.bitwise_xor(words, shifted)
