"""Text to word pieces as TensorFlow operations, by a `FastModel`.

Everything here works in a graph, in batches of `N` texts, and needs no
Python afterwards. Texts are valid UTF-8 (`decoded` makes them so).
"""

import functools
import typing

import numpy as np

from serving import context_ops, fast_model

if typing.TYPE_CHECKING:
    import tensorflow as tf

# RE2 matches whole characters; a surrogate is none in UTF-8.
_VALID_UTF8 = r"[\x{0}-\x{d7ff}\x{e000}-\x{10ffff}]*"


def decoded(text: "tf.Tensor") -> "tf.Tensor":
    """Skips the invalid bytes of UTF-8 texts, as the definition does.

    Args:
        text: `[N]` string.

    Returns:
        `[N]` string, valid UTF-8.
    """
    import tensorflow as tf

    return context_ops.rewrite_rows(
        text,
        ~tf.strings.regex_full_match(text, _VALID_UTF8),
        lambda invalid: tf.strings.unicode_transcode(
            invalid, "UTF-8", "UTF-8", errors="ignore"
        ),
    )


def tokenize(
    model: fast_model.FastModel, text: "tf.Tensor"
) -> "tf.RaggedTensor":
    """Cuts texts into pieces.

    Args:
        model: how.
        text: `[N]` string, valid UTF-8.

    Returns:
        `[N, (pieces)]` ragged int32, ids of the vocabulary.
    """
    import tensorflow as tf

    if model.do_lower_case:
        text = context_ops.resolve_context(text)
    normalized = _normalizer(model).normalize(text)
    (pieces,) = _cut(model, normalized, with_offsets=False)
    return pieces.with_values(tf.gather(model.ids, pieces.values))


def tokenize_with_offsets(
    model: fast_model.FastModel, text: "tf.Tensor"
) -> tuple["tf.RaggedTensor", "tf.RaggedTensor", "tf.RaggedTensor"]:
    """Cuts texts into pieces and tells which characters each covers.

    `vocab.offsets` defines the offsets.

    Args:
        model: how.
        text: `[N]` string, valid UTF-8.

    Returns:
        ids, starts and ends, each `[N, (pieces)]` ragged int32; starts and
        ends count the characters (code points) of the text.
    """
    import tensorflow as tf

    if model.do_lower_case:
        text = context_ops.final_sigmas(text)
    chars = tf.strings.unicode_decode(text, "UTF-8")  # [N, (chars)]
    origins = tf.ragged.range(chars.row_lengths())  # [N, (chars)]
    if model.do_lower_case:
        text, chars, origins = context_ops.sort_marks_with_origins(
            text, chars, origins
        )
    normalized, byte_offsets = _normalizer(model).normalize_with_offsets(text)
    pieces, starts, ends = _cut(model, normalized, with_offsets=True)
    origin_of = functools.partial(
        _origin_of_byte, chars=chars, origins=origins, byte_offsets=byte_offsets
    )
    return (
        pieces.with_values(tf.gather(model.ids, pieces.values)),
        pieces.with_values(origin_of(starts)),
        pieces.with_values(origin_of(ends.with_values(ends.values - 1)) + 1),
    )


def _origin_of_byte(positions, *, chars, origins, byte_offsets):
    """Follows bytes of normalized texts back to characters.

    Args:
        positions: `[N, (pieces)]` ragged, bytes of the normalized text.
        chars: `[N, (chars)]` ragged int32, code points before that.
        origins: `[N, (chars)]` ragged, where those stand in the given text.
        byte_offsets: `[N, (bytes + 1)]` ragged, bytes of the normalized text
            -> bytes of the text before.

    Returns:
        `[total pieces]` int32.
    """
    import tensorflow as tf

    rows = positions.value_rowids()
    before = tf.gather(
        byte_offsets.values,
        tf.gather(byte_offsets.row_starts(), rows)
        + tf.cast(positions.values, tf.int64),
    )  # [pieces]
    # All texts end to end, so that one search serves them.
    sizes = 1 + tf.add_n(
        [
            tf.cast(chars.values >= first, tf.int64)
            for first in (0x80, 0x800, 0x10000)  # UTF-8.
        ]
    )  # [chars]
    char_ends = tf.cumsum(sizes)  # [chars]
    row_bytes = tf.concat([[tf.constant(0, tf.int64)], char_ends], 0)
    before += tf.gather(tf.gather(row_bytes, chars.row_starts()), rows)
    index = tf.searchsorted(char_ends, before, side="right")  # [pieces]
    return tf.cast(tf.gather(origins.values, index), tf.int32)


def _normalizer(model: fast_model.FastModel):
    import tensorflow_text as tf_text

    return tf_text.FastBertNormalizer(model_buffer=_constant(model.normalizer))


def _constant(buffer: bytes):
    import tensorflow as tf

    return tf.constant(np.frombuffer(buffer, np.uint8))


def _cut(model: fast_model.FastModel, normalized, *, with_offsets: bool):
    """Cuts normalized texts into pieces.

    Args:
        model: how.
        normalized: `[N]` string.
        with_offsets: whether the places are wanted.

    Returns:
        A list of `[N, (pieces)]` ragged: int32 numbers of the model's
        pieces; if wanted, first bytes and ends in the normalized text.
    """
    import tensorflow as tf
    import tensorflow_text as tf_text

    pieces, starts, ends = tf_text.FastWordpieceTokenizer(
        model_buffer=_constant(model.wordpiece), token_out_type=tf.int32
    ).tokenize_with_offsets(normalized)
    spans = (starts.values, ends.values) if with_offsets else ()
    values = (pieces.row_splits, pieces.values, *spans)
    continues = pieces.values >= model.num_initial  # [total pieces]
    # Only a word of that many pieces can be too long.
    splits, *columns = tf.cond(
        _has_run(continues, model.min_pieces_of_long_word - 1),
        lambda: _long_words_unknown(model, *values),
        lambda: values,
    )
    return [
        tf.RaggedTensor.from_row_splits(column, splits, validate=False)
        for column in columns
    ]


def _has_run(flags, length: int):
    """Tells whether `length` flags in a row are set: `[F]` bool -> `[]`."""
    import tensorflow as tf

    run = 1
    while run < length:
        step = min(run, length - run)
        flags = flags[:-step] & flags[step:]
        run += step  # A flag now says: `run` are set from here on.
    return tf.reduce_any(flags)


def _long_words_unknown(model: fast_model.FastModel, splits, pieces, *spans):
    """Makes one unknown piece of each word that is too long.

    Args:
        model: its pieces.
        splits: `[N + 1]`, where each text's pieces begin.
        pieces: `[total]` int32.
        *spans: none, or first bytes and ends, each `[total]`.

    Returns:
        The same columns, with fewer pieces.
    """
    import tensorflow as tf

    is_first = pieces < model.num_initial  # [total]
    word = tf.cumsum(tf.cast(is_first, tf.int32)) - 1  # [total]
    lengths = tf.math.segment_sum(tf.gather(model.lengths, pieces), word)
    is_long = tf.gather(lengths > fast_model.MAX_WORD_CHARACTERS, word)
    columns = [tf.where(is_long, model.unknown, pieces)]
    if spans:
        starts, ends = spans
        word_ends = tf.gather(tf.math.segment_max(ends, word), word)
        columns += [starts, tf.where(is_long, word_ends, ends)]
    kept = is_first | ~is_long  # [total]
    num_kept = tf.cumsum(tf.cast(kept, splits.dtype))
    num_kept = tf.concat([tf.zeros([1], splits.dtype), num_kept], axis=0)
    kept_columns = [tf.boolean_mask(column, kept) for column in columns]
    return tf.gather(num_kept, splits), *kept_columns
