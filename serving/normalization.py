"""Text normalization as TensorFlow operations.

`normalize` has the rules of `tokenization.BasicTokenizer`: it cleans a text,
lower-cases it on request, and puts spaces around punctuation marks and
ideographs. Nearly every rule depends on one character only, so TensorFlow
Text can apply a table of replacements.

Two rules of lower-casing depend on the neighbors of a character: a capital
sigma becomes another letter at the end of a word (`str.lower`), and marks are
put into canonical order (NFD). `resolve_context` applies these two rules first.
Regular expressions find the few texts that need them.

The tables follow the Unicode version of the running Python, as the definition
does.
"""

import dataclasses
import functools
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from vocab import tokenization

# RE2 matches whole characters; a surrogate is none in UTF-8.
_VALID_UTF8 = r"[\x{0}-\x{d7ff}\x{e000}-\x{10ffff}]*"
_UNASSIGNED = frozenset({"Cn", "Co", "Cs"})  # Also private use, surrogates.
_CAPITAL_SIGMA, _SMALL_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c3", "\u03c2"

# Orders of characters when marks are sorted, besides 1 to 254, the canonical
# combining class of a mark that is kept.
_STARTER = 0  # Kept; no mark moves past it.
_VANISHING = 255  # Dropped; marks move past it.
_VANISHING_STARTER = 256  # Dropped; no mark moves past it.

# Of the buffer.
_HAS_VALUE = 1 << 8
_IS_VALUE = 1 << 31
_UNUSED = 1 << 31  # A byte can lead to no unit with this bit.
_CONTINUATION_BYTES = 64  # 0x80 to 0xBF follow the first byte of a character.


def drop_invalid_utf8(text: tf.Tensor) -> tf.Tensor:
    """Drops the bytes of texts that are not UTF-8, as the definition does.

    Args:
        text: `[N]` string.

    Returns:
        `[N]` string, valid UTF-8.
    """
    return _rewrite_rows(
        text,
        ~tf.strings.regex_full_match(text, _VALID_UTF8),
        lambda invalid: tf.strings.unicode_transcode(
            invalid, "UTF-8", "UTF-8", errors="ignore"
        ),
    )


def normalize(text: tf.Tensor, *, do_lower_case: bool) -> tf.Tensor:
    """Normalizes texts to words separated by spaces.

    Args:
        text: `[N]` string, valid UTF-8.
        do_lower_case: lower-cases and strips accents.

    Returns:
        `[N]` string.
    """
    if do_lower_case:
        text = resolve_context(text)
    return _normalizer(do_lower_case).normalize(text)


def normalize_with_origins(
    text: tf.Tensor, *, do_lower_case: bool
) -> tuple[tf.Tensor, Callable[[tf.RaggedTensor], tf.RaggedTensor]]:
    """Normalizes texts and tracks the origin of each byte.

    Args:
        text: `[N]` string, valid UTF-8.
        do_lower_case: lower-cases and strips accents.

    Returns:
        `[N]` string, as from `normalize`, and a function from positions in it
        (bytes, `[N, (places)]` ragged int64) to characters (code points) of
        the original text, `[N, (places)]` ragged int32.
    """
    origins = tf.ragged.range(tf.strings.length(text, unit="UTF8_CHAR"))
    if do_lower_case:
        text = final_sigmas(text)  # No character moves.

        def with_sorted():
            in_order, places = _sort_marks(text)
            moved = _look_up(origins, places)
            return in_order, moved.values, moved.row_splits

        text, values, splits = tf.cond(
            tf.reduce_any(_has_two_marks(text)),
            with_sorted,
            lambda: (text, origins.values, origins.row_splits),
        )
        origins = tf.RaggedTensor.from_row_splits(
            values, splits, validate=False
        )
    normalized, byte_offsets = _normalizer(
        do_lower_case
    ).normalize_with_offsets(text)  # [N, (bytes + 1)]
    codes = tf.strings.unicode_decode(text, "UTF-8").values  # [characters]
    num_bytes = 1 + tf.add_n(
        [tf.cast(codes >= first, tf.int32) for first in (0x80, 0x800, 0x10000)]
    )  # In UTF-8.
    origin_of_byte = tf.RaggedTensor.from_row_lengths(
        tf.repeat(origins.values, num_bytes),
        tf.cast(tf.strings.length(text), tf.int64),
        validate=False,
    )

    def origins_of(places):
        return _look_up(origin_of_byte, _look_up(byte_offsets, places))

    return normalized, origins_of


def _look_up(
    table: tf.RaggedTensor, places: tf.RaggedTensor
) -> tf.RaggedTensor:
    """Looks positions up, each in its row of the table: `[N, (places)]`.

    `tf.gather` with `batch_dims` does the same in many more operations.
    """
    first = tf.gather(table.row_starts(), places.value_rowids())
    return places.with_values(tf.gather(table.values, first + places.values))


def _rewrite_rows(
    text: tf.Tensor, chosen: tf.Tensor, rewrite: Callable
) -> tf.Tensor:
    """Rewrites those of `[N]` texts that are chosen, `[N]` bool.

    Nothing is computed if none is.
    """

    def with_rewritten():
        rows = tf.where(chosen)  # [C, 1]
        rewritten = rewrite(tf.gather_nd(text, rows))
        return tf.tensor_scatter_nd_update(text, rows, rewritten)

    return tf.cond(tf.reduce_any(chosen), with_rewritten, lambda: text)


# ------------------------------------------------------ The table of characters


def folded(char: str, *, do_lower_case: bool) -> str:
    """Returns the replacement of a character, without spaces around it.

    It is empty for a character that is dropped, and a space for white space.
    """
    if tokenization.is_removed(char):
        return ""
    if char.isspace():  # Also U+2028 and U+2029, as for `str.split`.
        return " "
    if not do_lower_case:
        return char
    return "".join(
        part
        for part in unicodedata.normalize("NFD", char.lower())
        if not tokenization.is_combining_mark(part)
    )


def assigned_characters() -> list[str]:
    """Lists the assigned characters of Unicode, in order."""
    return [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(char) not in _UNASSIGNED
    ]


@functools.cache
def _replacements(*, do_lower_case: bool) -> bytes:
    """Returns the table of replacements of all characters, as a buffer."""
    # The blocks of ideographs contain unassigned code points too.
    chars = {*assigned_characters(), *tokenization.cjk_ideographs()}
    table = {}
    for char in sorted(chars):
        replacement = "".join(
            f" {part} " if tokenization.stands_alone(part) else part
            for part in folded(char, do_lower_case=do_lower_case)
        )
        if replacement != char:
            table[char] = replacement
    return buffer_of(table)


def _normalizer(do_lower_case: bool) -> tf_text.FastBertNormalizer:
    buffer = _replacements(do_lower_case=do_lower_case)
    return tf_text.FastBertNormalizer(
        model_buffer=tf.constant(np.frombuffer(buffer, np.uint8))
    )


# -------------------------------------------- Rules that depend on neighbors


def resolve_context(text: tf.Tensor) -> tf.Tensor:
    """Applies the rules that depend on more than one character.

    Args:
        text: `[N]` string, valid UTF-8.

    Returns:
        `[N]` string, in which each character can be lower-cased by itself.
    """
    text = final_sigmas(text)
    return _rewrite_rows(
        text, _has_two_marks(text), lambda rows: _sort_marks(rows)[0]
    )


@functools.cache
def _sigma_classes() -> tuple[str, str]:
    """Classifies characters by their effect on a sigma in `str.lower`.

    Returns:
        Regular expressions of a letter with case, and of a character that is
        skipped in the search for one; cleaning removes some of the latter.
    """
    cased, ignored = [], []
    for char in assigned_characters():
        if tokenization.is_removed(char):
            ignored.append(char)
        elif f"{char}{_CAPITAL_SIGMA}".lower().endswith(_FINAL_SIGMA):
            cased.append(char)
        elif f"A{char}{_CAPITAL_SIGMA}".lower().endswith(_FINAL_SIGMA):
            ignored.append(char)
    return _one_of(cased), _one_of(ignored)


def final_sigmas(text: tf.Tensor) -> tf.Tensor:
    """Lower-cases sigmas to the final or the other form, as `str.lower` does.

    A sigma is final after a letter with case and not before one; ignored
    characters between them do not count.

    Args:
        text: `[N]` string.

    Returns:
        `[N]` string without capital sigmas that become final; each character
        keeps its position and its length in bytes.
    """
    cased, ignored = _sigma_classes()
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

    has_sigma = tf.strings.regex_full_match(text, f"(?s).*{_CAPITAL_SIGMA}.*")
    return _rewrite_rows(text, has_sigma, rewrite)


def _one_of(chars: Iterable[str]) -> str:
    """Returns a set of characters as a regular expression of RE2."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, chars)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    spelled = [rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges]
    return f"[{''.join(spelled)}]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Marks:
    """The tables for sorting the marks that are kept (spacing and enclosing).

    Attributes:
        sortable: regular expression of a mark that can move, or a character
            that contains one; texts with two of these may change.
        decomposed: of those, the ones that decompose -> their parts.
        order_of: character -> its order; `_STARTER` if absent.
    """

    sortable: str
    decomposed: Mapping[str, str]
    order_of: Mapping[str, int]


@functools.cache
def _marks() -> _Marks:
    """Collects the characters that canonical ordering can move or drop."""
    sortable = []
    decomposed = {}
    order_of = {}
    for char in assigned_characters():
        order = _order(char)
        if order != _STARTER:
            order_of[char] = order
        parts = folded(char, do_lower_case=True)
        if any(map(unicodedata.combining, parts)):
            sortable.append(char)
            if parts != char:
                decomposed[char] = parts
    return _Marks(
        sortable=_one_of(sortable), decomposed=decomposed, order_of=order_of
    )


def _order(char: str) -> int:
    if tokenization.is_removed(char):
        return _VANISHING
    if folded(char, do_lower_case=True):
        return unicodedata.combining(char)
    parts = unicodedata.normalize("NFD", char.lower())
    if all(map(unicodedata.combining, parts)):
        return _VANISHING
    return _VANISHING_STARTER


def _has_two_marks(text: tf.Tensor) -> tf.Tensor:
    """Returns in which of `[N]` texts the order of marks can change."""
    sortable = _marks().sortable
    return tf.strings.regex_full_match(text, f"(?s).*{sortable}.*{sortable}.*")


def _sort_marks(text: tf.Tensor) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Puts the marks that are kept into canonical order.

    Characters that contain such marks are decomposed.

    Args:
        text: `[N]` string, valid UTF-8.

    Returns:
        `[N]` string, and `[N, (characters)]` ragged int64, the position of each
        of its characters in the original text. These ascend: marks that are
        reordered exchange their positions.
    """
    chars = tf.strings.unicode_decode(text, "UTF-8")  # [N, (characters)]
    places = tf.ragged.range(chars.row_lengths())
    parts = _decompose(chars.values)  # [characters, (parts)]
    counts = parts.row_lengths()
    codes = parts.values  # [parts]
    rows = tf.repeat(chars.value_rowids(), counts)
    places = tf.repeat(places.values, counts)

    order_of = _marks().order_of
    index, is_key = _find(order_of, codes)
    orders = tf.constant([order for _, order in sorted(order_of.items())])
    order = tf.where(is_key, tf.gather(orders, index), _STARTER)
    is_starter = (order == _STARTER) | (order == _VANISHING_STARTER)
    # The first character of a text begins a run in any case.
    run = tf.cumsum(tf.cast(is_starter, tf.int64)) + rows
    key = run * _VANISHING + tf.cast(order, tf.int64)
    stays = order < _VANISHING
    codes, rows, places, key = (
        tf.boolean_mask(values, stays) for values in (codes, rows, places, key)
    )
    codes = tf.gather(codes, tf.argsort(key, stable=True))
    in_order = tf.RaggedTensor.from_value_rowids(
        codes, rows, chars.nrows(), validate=False
    )
    return (
        tf.strings.unicode_encode(in_order, "UTF-8"),
        in_order.with_values(places),
    )


def _decompose(codes: tf.Tensor) -> tf.RaggedTensor:
    """Decomposes characters that contain marks: `[C]` -> `[C, (parts)]`."""
    decomposed = _marks().decomposed
    index, is_key = _find(decomposed, codes)
    table = tf.ragged.constant(
        [list(map(ord, parts)) for _, parts in sorted(decomposed.items())]
    )
    # After the table, each character is a row.
    own_row = table.nrows() + tf.range(tf.size(codes, tf.int64))
    rows = tf.concat([table, codes[:, tf.newaxis]], axis=0)
    return tf.gather(rows, tf.where(is_key, index, own_row))


def _find(
    table: Mapping[str, Any], codes: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the index of `[C]` characters among the sorted keys of a table.

    Also returns whether each is a key; the index of others is arbitrary.
    """
    keys = tf.constant(sorted(map(ord, table)))  # [K]
    index = tf.searchsorted(keys, codes, out_type=tf.int64)
    index = tf.minimum(index, len(table) - 1)
    return index, tf.gather(keys, index) == codes


# --------------------------------------------------- The buffer of the table

# `tensorflow_text.FastBertNormalizer` replaces characters one by one, by a
# table in a buffer. Its own tables have other rules than the release. The
# format is internal to TensorFlow Text, so `graph_tokenizer` compares the
# result with the definition:
#
# - A flatbuffer table of four fields: 0, a bool, whether text is lower-cased;
#   1, a vector of uint32, the units of a trie over UTF-8 bytes; 2, an int32,
#   the value of U+0000, which the trie cannot contain; 3, a vector of bytes,
#   the pool of all replacements, concatenated.
# - A value is `1 << 30 | offset in the pool << 6 | bytes of the replacement`.
# - The trie is the double array of the Darts-clone library. The unit of a node
#   has the byte that leads to it in bits 0-7, in bit 8 whether a key ends
#   there, and from bit 10 its base XOR its own index. The child for a byte is
#   the unit at index base XOR byte; the value of a key that ends is at the
#   base itself, with bit 31 set.
#
# Source: the behavior of TensorFlow Text 2.21.


def buffer_of(replacements: Mapping[str, str]) -> bytes:
    """Builds the buffer of a table of replacements.

    Args:
        replacements: character -> replacement, possibly empty, of at most 63
            bytes. Other characters are kept.
    """
    import flatbuffers  # Installed with TensorFlow.

    values, pool = _pooled(replacements)
    value_of_nul = values.pop("\0", 0)
    builder = flatbuffers.Builder(0)
    units = np.array(_trie(values), np.uint32)
    trie = builder.CreateNumpyVector(units)
    # An empty vector is not read correctly.
    strings = builder.CreateByteVector(pool or b"\0")
    builder.StartObject(4)
    builder.PrependBoolSlot(0, True, False)  # It does not change the result.
    builder.PrependUOffsetTRelativeSlot(1, trie, 0)
    builder.PrependInt32Slot(2, value_of_nul, 0)
    builder.PrependUOffsetTRelativeSlot(3, strings, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


def _pooled(replacements: Mapping[str, str]) -> tuple[dict[str, int], bytes]:
    """Concatenates replacements; returns character -> value, and the pool."""
    pool = bytearray()
    value_of = {}
    values = {}
    for char, replacement in replacements.items():
        if replacement not in value_of:
            encoded = replacement.encode("utf-8")
            value_of[replacement] = 1 << 30 | len(pool) << 6 | len(encoded)
            pool += encoded
        values[char] = value_of[replacement]
    return values, bytes(pool)


def _trie(values: Mapping[str, int]) -> list[int]:
    """Builds the trie from the UTF-8 bytes of characters to values."""
    root: dict[int, Any] = {}  # Bytes -> nodes alike, or values.
    for char, value in values.items():
        *path, last = char.encode("utf-8")
        node = root
        for byte in path:
            node = node.setdefault(byte, {})
        node[last] = value
    # Unit 0 is the root; its children, for any first byte, are 256-511.
    units = [_UNUSED] * 512

    def place_children(node: dict, base: int) -> None:
        for byte, child in node.items():
            index = base ^ byte
            units[index] = byte
            if isinstance(child, dict):
                start = len(units) + -len(units) % _CONTINUATION_BYTES
                units.extend(
                    [_UNUSED] * (start + _CONTINUATION_BYTES - len(units))
                )
                units[index] |= (index ^ start ^ 0x80) << 10
                place_children(child, start ^ 0x80)
            else:
                units[index] |= (index ^ len(units)) << 10 | _HAS_VALUE
                units.append(_IS_VALUE | child)

    units[0] = 256 << 10
    place_children(root, 256)
    return units + [_UNUSED] * (-len(units) % 256)
