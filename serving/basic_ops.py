"""Text to words and punctuation marks as TensorFlow operations.

What `tokenization.BasicTokenizer` does, in batches and in graphs; the word
pieces are in `serving.text_ops`.
"""

import functools
import typing

import numpy as np

from serving import context_ops, normalization, normalizer_buffer

if typing.TYPE_CHECKING:
    import tensorflow as tf


def basic_text(text: "tf.Tensor", *, do_lower_case: bool) -> "tf.Tensor":
    """Cuts texts into words, each parted from the next by one space.

    Args:
        text: `[N]` string, valid UTF-8 (`text_ops.decoded` makes it so).
        do_lower_case: lower-cases and strips accents.

    Returns:
        `[N]` string, what `BasicTokenizer.tokenize` gives, joined by spaces.
    """
    import tensorflow as tf
    import tensorflow_text as tf_text

    if do_lower_case:
        text = context_ops.resolve_context(text)
    buffer = np.frombuffer(_folding(do_lower_case=do_lower_case), np.uint8)
    folded = tf_text.FastBertNormalizer(
        model_buffer=tf.constant(buffer)
    ).normalize(text)
    apart = tf.strings.regex_replace(
        folded, context_ops.one_of(_apart()), r" \0 "
    )
    return tf.strings.strip(tf.strings.regex_replace(apart, " +", " "))


@functools.cache
def _folding(*, do_lower_case: bool) -> bytes:
    """Writes the table of what becomes of each character by itself."""
    table = {}
    for char in normalization.assigned_characters():
        folded = normalization.folded(char, do_lower_case=do_lower_case)
        if folded != char:
            table[char] = folded
    return normalizer_buffer.build(table, lower_case=do_lower_case)


@functools.cache
def _apart() -> str:
    """Collects the characters that are words by themselves.

    Ideographs are told by their blocks, whose last code points are unassigned.
    """
    return "".join(filter(normalization.stands_apart, _characters()))


def _characters() -> typing.Iterator[str]:
    yield from map(chr, range(0xD800))
    yield from map(chr, range(0xE000, 0x110000))
