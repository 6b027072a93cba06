"""Text to words as TensorFlow operations on code points.

`split` has the rules of `tokenization.BasicTokenizer`: it cleans texts,
lower-cases them and strips accents on request, and makes punctuation marks and
ideographs single words. Nearly every rule depends on one character only, so a
table replaces each. Two rules depend on its neighbors, for characters that are
rare: a capital sigma becomes another letter at the end of a word (`str.lower`),
and marks are put into canonical order (NFD).

The tables follow the Unicode version of the running Python, as the definition
does.
"""

import dataclasses
import functools
import sys
import unicodedata
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from vocab import tokenization

_NUM_CODE_POINTS = sys.maxunicode + 1
_PAGE_BITS = 8
_UNASSIGNED = frozenset({"Cn", "Co", "Cs"})  # Also private use, surrogates.
_SPACE = ord(" ")
_CAPITAL_SIGMA, _FINAL_SIGMA = "\u03a3", "\u03c2"

# The effect of a character on a sigma; that of others is 0.
_IGNORED, _CASED = 1, 2
# Orders of characters when marks are sorted, besides 1 to 254, the canonical
# combining class of a mark that is kept.
_STARTER = 0  # Kept; no mark moves past it.
_VANISHING = 255  # Dropped; marks move past it.
_VANISHING_STARTER = 256  # Dropped; no mark moves past it.
# Rows of a table of replacements, before those with characters.
_ITSELF, _ITSELF_ALONE = 0, 1
_ALONE = 1 << 21  # Added to the code point of a character that is a word.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """Rules of a `tokenization.BasicTokenizer`."""

    do_lower_case: bool
    strip_accents: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Words:
    """The words of `N` texts, `W` in all.

    Attributes:
        words: `[N, (words)]` string.
        chars: `[W, (characters)]` int32, their code points.
        origins: `[W, (characters)]` int64, the character of the text that each
            comes from; bytes that are not UTF-8 do not count.
    """

    words: tf.RaggedTensor
    chars: tf.RaggedTensor
    origins: tf.RaggedTensor


def drop_invalid_utf8(text: tf.Tensor) -> tf.Tensor:
    """Drops the bytes of `[N]` texts that are not UTF-8."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")


def split(text: tf.Tensor, rules: Rules) -> Words:
    """Splits texts into words.

    Args:
        text: `[N]` string; bytes that are not UTF-8 are dropped.
        rules: of the tokenizer.
    """
    chars = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
    origins = tf.ragged.range(chars.row_lengths()).values  # [characters]
    if rules.do_lower_case:
        chars = chars.with_values(_with_final_sigmas(chars))
    if rules.strip_accents:
        chars, origins = _with_sorted_marks(chars, origins, rules)
    parts = _replacements(rules)(chars.values)  # [characters, (parts)]
    return _words(
        parts.values,
        tf.repeat(origins, parts.row_lengths()),
        tf.gather(parts.row_splits, chars.row_splits),
    )


def _words(parts: tf.Tensor, origins: tf.Tensor, splits: tf.Tensor) -> Words:
    # Cuts `[P]` characters at spaces, and around those that are words. Splits
    # `[N + 1]` are the first character of each text, and P.
    count = tf.size(parts)
    is_alone = parts >= _ALONE
    codes = tf.where(is_alone, parts - _ALONE, parts)
    is_kept = codes != _SPACE
    ends = is_alone | ~is_kept  # No word goes on after these.
    firsts = tf.ones_like(splits[:-1], tf.int32)
    is_first = tf.scatter_nd(splits[:-1, tf.newaxis], firsts, [count + 1]) > 0
    follows_end = tf.concat([[True], ends], 0)
    begins = is_kept & (is_alone | (follows_end | is_first)[:count])  # [P]
    num_words = tf.concat([[0], tf.cumsum(tf.cast(begins, tf.int64))], 0)
    chars = tf.RaggedTensor.from_row_starts(
        tf.boolean_mask(codes, is_kept),
        tf.where(tf.boolean_mask(begins, is_kept))[:, 0],
        validate=False,
    )  # [W, (characters)]
    return Words(
        words=tf.RaggedTensor.from_row_splits(
            tf.strings.unicode_encode(chars, "UTF-8"),
            tf.gather(num_words, splits),
            validate=False,
        ),
        chars=chars,
        origins=chars.with_values(tf.boolean_mask(origins, is_kept)),
    )


# ---------------------------------------------------------------------- Tables


class _Numbers:
    # A number for each character, 0 unless given. Equal pages of 256 code
    # points share their numbers.

    def __init__(self, given: Mapping[str, int]):
        numbers = np.zeros(_NUM_CODE_POINTS, np.int32)
        numbers[list(map(ord, given))] = list(given.values())
        pages, page = np.unique(
            numbers.reshape(-1, 1 << _PAGE_BITS), axis=0, return_inverse=True
        )
        self._numbers = pages.reshape(-1)
        self._first = np.int32(page.reshape(-1) << _PAGE_BITS)

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Returns the numbers of `[C]` int32 code points: `[C]` int32."""
        first = tf.gather(
            self._first, tf.bitwise.right_shift(codes, _PAGE_BITS)
        )
        place = tf.bitwise.bitwise_and(codes, (1 << _PAGE_BITS) - 1)
        return tf.gather(self._numbers, first + place)


class _Replacements:
    """The replacements of characters: themselves unless given.

    Args:
        given: character -> code points of its replacement, possibly none.
        alone: characters that are words by themselves and replaced by
            themselves.
    """

    def __init__(
        self,
        given: Mapping[str, tuple[int, ...]],
        alone: frozenset[str] = frozenset(),
    ):
        rows = dict.fromkeys(given.values())
        number = {row: 2 + place for place, row in enumerate(rows)}
        self._row_of = _Numbers(
            {
                **{char: number[row] for char, row in given.items()},
                **dict.fromkeys(alone, _ITSELF_ALONE),
            }
        )
        self._parts = np.array([part for row in rows for part in row], np.int32)
        # Of the first two rows there is one part, after all others.
        self._counts = np.array([1, 1, *map(len, rows)], np.int64)
        ends = np.cumsum(self._counts[2:])
        self._firsts = np.array([0, 0, *(ends - self._counts[2:])], np.int64)

    def __call__(self, codes: tf.Tensor) -> tf.RaggedTensor:
        """Replaces `[C]` int32 code points: `[C, (parts)]` int32."""
        row = self._row_of(codes)
        is_itself = row <= _ITSELF_ALONE
        own = len(self._parts) + tf.range(tf.size(codes, tf.int64))
        first = tf.where(is_itself, own, tf.gather(self._firsts, row))
        places = tf.ragged.range(first, first + tf.gather(self._counts, row))
        themselves = tf.where(row == _ITSELF_ALONE, codes + _ALONE, codes)
        parts = tf.concat([self._parts, themselves], 0)
        return places.with_values(tf.gather(parts, places.values))


def folded(char: str, rules: Rules) -> str:
    """Returns the replacement of a character, without spaces around it.

    It is empty for a character that is dropped, and a space for white space.
    """
    if tokenization.is_removed(char):
        return ""
    if char.isspace():  # Also U+2028 and U+2029, as for `str.split`.
        return " "
    return tokenization.BasicTokenizer(**vars(rules)).fold(char)


@functools.cache
def assigned_characters() -> tuple[str, ...]:
    """Lists the assigned characters of Unicode, in order."""
    return tuple(
        char
        for char in map(chr, range(_NUM_CODE_POINTS))
        if unicodedata.category(char) not in _UNASSIGNED
    )


@functools.cache
def _replacements(rules: Rules) -> _Replacements:
    """Returns the replacements of all characters."""
    given, alone = {}, set()
    # The blocks of ideographs contain unassigned code points too.
    ideographs = set(tokenization.cjk_ideographs())
    for char in sorted(ideographs.union(assigned_characters())):
        parts = folded(char, rules)
        are_alone = [
            char in ideographs or tokenization.is_punctuation(part)
            for part in parts
        ]
        if parts != char:
            given[char] = tuple(
                ord(part) + _ALONE * is_alone
                for part, is_alone in zip(parts, are_alone, strict=True)
            )
        elif any(are_alone):
            alone.add(char)
    return _Replacements(given, frozenset(alone))


# -------------------------------------------- Rules that depend on neighbors


@functools.cache
def _sigma_effects() -> _Numbers:
    # A letter with case ends the search for one before and after a sigma;
    # ignored characters do not. Cleaning removes some of those.
    effects = {}
    for char in assigned_characters():
        if tokenization.is_removed(char):
            effects[char] = _IGNORED
        elif f"{char}{_CAPITAL_SIGMA}".lower().endswith(_FINAL_SIGMA):
            effects[char] = _CASED
        elif f"A{char}{_CAPITAL_SIGMA}".lower().endswith(_FINAL_SIGMA):
            effects[char] = _IGNORED
    return _Numbers(effects)


def _with_final_sigmas(chars: tf.RaggedTensor) -> tf.Tensor:
    # As `str.lower`: a sigma is final after a letter with case and not before
    # one; ignored characters between them do not count.
    is_sigma = chars.values == ord(_CAPITAL_SIGMA)

    def rewritten():
        effects = _sigma_effects()(chars.values)
        seen = tf.where(effects != _IGNORED)[:, 0]  # [S]
        row = tf.gather(chars.value_rowids(), seen)
        cased = tf.gather(effects, seen) == _CASED
        is_same_row = row[1:] == row[:-1]
        no = tf.constant([False])
        after = tf.concat([no, cased[:-1] & is_same_row], 0)
        before = tf.concat([cased[1:] & is_same_row, no], 0)
        is_final = tf.gather(is_sigma, seen) & after & ~before
        final = tf.boolean_mask(seen, is_final)[:, tf.newaxis]
        return tf.tensor_scatter_nd_update(
            chars.values,
            final,
            tf.fill(tf.shape(final)[:1], ord(_FINAL_SIGMA)),
        )

    return tf.cond(tf.reduce_any(is_sigma), rewritten, lambda: chars.values)


@functools.cache
def _marks(rules: Rules) -> tuple[_Numbers, _Replacements, _Numbers]:
    """Makes the tables for sorting the marks that are kept.

    Returns:
        1 for a mark that can move, or a character that contains one: texts with
        two of these may change; the parts of those that decompose; and the
        order of each character.
    """
    sortable, decomposed, order_of = {}, {}, {}
    for char in assigned_characters():
        order_of[char] = _order(char, rules)
        parts = folded(char, rules)
        if any(map(unicodedata.combining, parts)):
            sortable[char] = 1
            if parts != char:
                decomposed[char] = tuple(map(ord, parts))
    return _Numbers(sortable), _Replacements(decomposed), _Numbers(order_of)


def _order(char: str, rules: Rules) -> int:
    if tokenization.is_removed(char):
        return _VANISHING
    if folded(char, rules):
        return unicodedata.combining(char)
    if all(map(unicodedata.combining, unicodedata.normalize("NFD", char))):
        return _VANISHING
    return _VANISHING_STARTER


def _with_sorted_marks(
    chars: tf.RaggedTensor, origins: tf.Tensor, rules: Rules
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Puts the marks that are kept into canonical order.

    Characters that contain such marks are decomposed. The origins ascend: marks
    that are reordered exchange them.
    """
    sortable, decomposed, order_of = _marks(rules)

    def in_order():
        parts = decomposed(chars.values)  # [characters, (parts)]
        rows = tf.repeat(chars.value_rowids(), parts.row_lengths())
        order = order_of(parts.values)
        is_starter = (order == _STARTER) | (order == _VANISHING_STARTER)
        # The first character of a text begins a run in any case.
        run = tf.cumsum(tf.cast(is_starter, tf.int64)) + rows
        key = run * _VANISHING + tf.cast(order, tf.int64)
        stays = order < _VANISHING
        place = tf.argsort(tf.boolean_mask(key, stays), stable=True)
        kept = tf.RaggedTensor.from_value_rowids(
            tf.gather(tf.boolean_mask(parts.values, stays), place),
            tf.boolean_mask(rows, stays),
            chars.nrows(),
            validate=False,
        )
        sources = tf.repeat(origins, parts.row_lengths())
        return kept.values, kept.row_splits, tf.boolean_mask(sources, stays)

    codes, splits, origins_in_order = tf.cond(
        tf.reduce_sum(sortable(chars.values)) > 1,
        in_order,
        lambda: (chars.values, chars.row_splits, origins),
    )
    sorted_chars = tf.RaggedTensor.from_row_splits(
        codes, splits, validate=False
    )
    return sorted_chars, origins_in_order
