"""The rules of lower case that look around a character, as operations.

Two rules do: a capital sigma becomes another letter at the end of a word
(`str.lower`), and marks are put into canonical order (NFD). These operations
rewrite texts so that each character can be replaced by itself afterwards.
They find the few texts that need it by one regular expression.
"""

import functools
import typing
from collections.abc import Callable

from serving import normalization

if typing.TYPE_CHECKING:
    import tensorflow as tf

_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c3", "\u03c2"


def resolve_context(text: "tf.Tensor") -> "tf.Tensor":
    """Applies the rules that look at more than one character.

    Args:
        text: `[N]` string.

    Returns:
        `[N]` string, in which each character can be lower-cased by itself.
    """
    telling = one_of(_CAPITAL_SIGMA + normalization.marks().telling)
    return _rewrite_where(
        text, telling, lambda t: _marks_sorted(final_sigmas(t))
    )


def rewrite_rows(
    text: "tf.Tensor", chosen: "tf.Tensor", rewrite: Callable
) -> "tf.Tensor":
    """Rewrites some texts of a batch; costs nothing where none is chosen.

    Args:
        text: `[N]` string.
        chosen: `[N]` bool.
        rewrite: function of the chosen texts, `[C]` string -> `[C]` string.

    Returns:
        `[N]` string.
    """
    import tensorflow as tf

    def with_rewritten():
        rows = tf.where(chosen)  # [C, 1]
        rewritten = rewrite(tf.gather_nd(text, rows))
        return tf.tensor_scatter_nd_update(text, rows, rewritten)

    return tf.cond(tf.reduce_any(chosen), with_rewritten, lambda: text)


def _rewrite_where(text, pattern: str, rewrite):
    """Rewrites those of `[N]` texts in which a pattern is found."""
    import tensorflow as tf

    found = tf.strings.regex_full_match(text, f"(?s).*{pattern}.*")
    return rewrite_rows(text, found, rewrite)


@functools.cache
def one_of(chars: str) -> str:
    """Writes a set of characters as a regular expression of RE2."""
    codes = sorted(map(ord, chars))
    ranges = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    spelt = "".join(
        rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges
    )
    return f"[{spelt}]"


def final_sigmas(text: "tf.Tensor") -> "tf.Tensor":
    """Writes the small sigmas that `str.lower` would, final or not.

    Final is a sigma after a letter with case and not before one, whatever
    ignored characters lie between.

    Args:
        text: `[N]` string.

    Returns:
        `[N]` string without capital sigmas that become final; each character
        keeps its place and its length in bytes.
    """
    import tensorflow as tf

    classes = normalization.sigma_classes()
    cased, ignored = one_of(classes.cased), one_of(classes.ignored)
    before = f"{_CAPITAL_SIGMA}({ignored}*{cased})"
    after = f"({cased}{ignored}*){_CAPITAL_SIGMA}"

    def rewrite(text):
        for pattern, replacement in (
            (before, rf"{_SMALL_SIGMA}\1"),
            (before, rf"{_SMALL_SIGMA}\1"),  # Matches cannot overlap.
            (after, rf"\1{_FINAL_SIGMA}"),
        ):
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text

    return _rewrite_where(text, _CAPITAL_SIGMA, rewrite)


# -------------------------------------------------- Canonical order of marks


def _marks_sorted(text):
    """Puts the marks that stay into canonical order.

    Args:
        text: `[N]` string.

    Returns:
        `[N]` string; where the order may have changed, without the
        characters that vanish.
    """
    import tensorflow as tf

    def rewrite(text):
        chars = tf.strings.unicode_decode(text, "UTF-8")
        chars, _ = _sorted(chars, chars)
        return tf.strings.unicode_encode(chars, "UTF-8")

    return _rewrite_where(text, _two_marks(), rewrite)


def _two_marks() -> str:
    telling = one_of(normalization.marks().telling)
    return f"{telling}.*{telling}"


def sort_marks_with_origins(
    text: "tf.Tensor", chars: "tf.RaggedTensor", origins: "tf.RaggedTensor"
) -> tuple["tf.Tensor", "tf.RaggedTensor", "tf.RaggedTensor"]:
    """Sorts the marks of all texts if one of them has two.

    Args:
        text: `[N]` string.
        chars: `[N, (chars)]` ragged int32, its code points.
        origins: `[N, (chars)]` ragged, where they stand in the given text.

    Returns:
        `text`, `chars` and `origins` of the sorted texts.
    """
    import tensorflow as tf

    found = tf.strings.regex_full_match(text, f"(?s).*{_two_marks()}.*")

    def with_sorted():
        in_order, moved = _sorted(chars, origins)
        return (
            tf.strings.unicode_encode(in_order, "UTF-8"),
            in_order.values,
            moved.values,
            in_order.row_splits,
        )

    text, codes, places, splits = tf.cond(
        tf.reduce_any(found),
        with_sorted,
        lambda: (text, chars.values, origins.values, chars.row_splits),
    )
    return (
        text,
        tf.RaggedTensor.from_row_splits(codes, splits, validate=False),
        tf.RaggedTensor.from_row_splits(places, splits, validate=False),
    )


def _sorted(chars, origins):
    """Decomposes what holds marks, drops what vanishes, sorts the marks.

    Args:
        chars: `[N, (chars)]` ragged int32, code points.
        origins: `[N, (chars)]` ragged; they stay ascending: marks that trade
            places do not take their origins along.

    Returns:
        `chars` and `origins` of the same or other lengths.
    """
    import tensorflow as tf

    chars, origins = _decomposed(chars, origins)
    order = _order_of(chars.values)  # [chars]
    is_starter = (order == normalization.STARTER) | (
        order == normalization.VANISHING_STARTER
    )
    rows = chars.value_rowids()
    # The first character of a text begins a run, whatever it is.
    run = tf.cumsum(tf.cast(is_starter, tf.int64)) + rows
    stays = order < normalization.VANISHING
    key = tf.boolean_mask(
        run * normalization.VANISHING + tf.cast(order, tf.int64), stays
    )
    in_order = tf.gather(
        tf.boolean_mask(chars.values, stays), tf.argsort(key, stable=True)
    )
    rows = tf.boolean_mask(rows, stays)
    num_rows = chars.nrows()
    return tuple(
        tf.RaggedTensor.from_value_rowids(
            values, rows, num_rows, validate=False
        )
        for values in (in_order, tf.boolean_mask(origins.values, stays))
    )


def _order_of(codes):
    """Looks up the order of marks: `[chars]` int32 -> `[chars]` int32."""
    import tensorflow as tf

    firsts, orders = [0], [normalization.STARTER]  # Of ranges of code points.
    for char, order in sorted(normalization.marks().order_of.items()):
        code = ord(char)
        if firsts[-1] == code:
            firsts.pop()
            orders.pop()
        if not orders or orders[-1] != order:
            firsts.append(code)
            orders.append(order)
        firsts.append(code + 1)
        orders.append(normalization.STARTER)
    index = tf.searchsorted(tf.constant(firsts), codes, side="right") - 1
    return tf.gather(tf.constant(orders), index)


def _decomposed(chars, origins):
    """Writes the characters that hold marks as their parts.

    Args:
        chars: `[N, (chars)]` ragged int32, code points.
        origins: `[N, (chars)]` ragged.

    Returns:
        `chars` and `origins`, longer.
    """
    import tensorflow as tf

    decomposed = sorted(normalization.marks().decomposed.items())
    keys = tf.constant([ord(char) for char, _ in decomposed])  # [K]
    parts = tf.ragged.constant([list(map(ord, p)) for _, p in decomposed])
    lengths = tf.cast(parts.row_lengths(), tf.int32)  # [K]
    index = tf.minimum(tf.searchsorted(keys, chars.values), len(decomposed) - 1)
    is_key = tf.gather(keys, index) == chars.values  # [chars]
    counts = tf.where(is_key, tf.gather(lengths, index), 1)  # [chars]
    within = tf.ragged.range(counts).values  # [parts]
    part = tf.gather_nd(
        parts.to_tensor(),  # [K, most parts]
        tf.stack([tf.repeat(index, counts), within], axis=1),
    )
    values = tf.where(
        tf.repeat(is_key, counts), part, tf.repeat(chars.values, counts)
    )
    rows = tf.repeat(chars.value_rowids(), counts)
    return tuple(
        tf.RaggedTensor.from_value_rowids(
            flat, rows, chars.nrows(), validate=False
        )
        for flat in (values, tf.repeat(origins.values, counts))
    )
