"""Tokenizer of exported models: text to word pieces in a TensorFlow graph.

Its pieces are exactly those of `tokenization.FullTokenizer`, for every string,
in batches and without Python. `split` has the rules of `BasicTokenizer`: it
cleans texts, lower-cases them and strips accents on request, and makes
punctuation marks and ideographs single words. Nearly every rule depends on one
character only, so a table replaces each. Two rules depend on its neighbors, for
characters that are rare: a capital sigma becomes another letter at the end of a
word (`str.lower`), and marks are put into canonical order (NFD). The tables
follow the Unicode version of the running Python, as the definition does.

TensorFlow Text splits the words into pieces. Each new tokenizer checks that the
installed version gives the pieces of the definition.
"""

import dataclasses
import functools
import sys
import unicodedata
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.core.pybinds import (
    pywrap_fast_wordpiece_tokenizer_model_builder as model_builder,
)

from vocab import tokenization

_UNKNOWN = "[UNK]"
_MAX_WORD_CHARACTERS = 200  # Source: the release.
_MAX_WORD_BYTES = 4 * _MAX_WORD_CHARACTERS  # In UTF-8.
_TEXTS = tf.TensorSpec([None], tf.string, name="text")
_Rules = tokenization.BasicTokenizer

_NUM_CODE_POINTS = sys.maxunicode + 1
_PAGE_BITS = 8
_UNASSIGNED = frozenset({"Cn", "Co", "Cs"})  # And private use, surrogates.
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

# Together, these texts need every special rule.
_PROBES = (
    "Plain text, as it comes: it's [MASK]ed at $5.00 (or 10%)...",
    "a\0b\x0bc\x0cd\x1ce\x7ff\x85g\xadh\u200bi\u200dj\ufeffk\ufffdl",
    "a\tb\nc\rd\xa0e\u1680f\u2003g\u2028h\u2029i\u202fj\u3000k",
    "\xc5ngstr\xf6m caf\xe9 cafe\u0301 \u0130I\u0131 \u1e9e\xdf \ufb01 \u2460",
    "\u4e2d\u6587\u5b57x\uf900y\U0002f800z\U0002a700 \u30ab\u306a \uff21\uff0c",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab a\u302eb",
    "\u039f\u0394\u039f\u03a3 \u03a3\u0391 \u03a3 \u0391\u03a3\u03a3\u03a3'"
    "\u0301\u0391\xad\u03a3.\u0391 \u0391\u03a3\u03a3",
    "a\u1b44\u0301\U00016ff0\u0334\u1b44 \U0001d15f\u0900\U00016ff1"
    " \U0001d160\U0001d16d\u302e",
    "a\u20ac\u2192\u2212\U0001f642b \u2014\xa1\xbf\u2019 \u226e\u037e\u2260",
    "\U000e0041a\ufe0fb\ue000c\U0010fffdd\U000323b0 a\u1b7fb\U00011f43c",
    "x" * 200 + " " + "y" * 201 + " " + "\U00010400" * 201,
)


class GraphTokenizer(tf.Module):
    """Tokenizer with the pieces of `tokenization.FullTokenizer`, in graphs.

    It can be saved with `tf.saved_model.save`, also as a part of another
    module; a program that loads it imports `tensorflow` and `tensorflow_text`
    only. The Unicode tables of this Python are saved in it.

    Args:
        vocab_file: one token a line.
        do_lower_case: as in the training of the model.
        strip_accents: likewise; None: as `do_lower_case`.

    Attributes:
        definition: the tokenizer that defines the result.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8, the vocabulary has no
            [UNK], or TensorFlow Text does not give the pieces of the
            definition.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        strip_accents: bool | None = None,
    ):
        super().__init__(name="tokenizer")
        self.definition = tokenization.FullTokenizer(
            vocab_file, do_lower_case, strip_accents
        )
        self.definition.require_tokens(_UNKNOWN)
        self._splitter = _WordPieces(
            self.definition.vocab, self.definition.basic_tokenizer
        )
        self._check()

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of `[N]` texts: `[N, (pieces)]` ragged int32.

        Bytes that are not UTF-8 are dropped.
        """
        return self._splitter.tokenize(text)["ids"]

    @tf.function(input_signature=[_TEXTS], autograph=False)
    def tokenize_with_offsets(
        self, text: tf.Tensor
    ) -> dict[str, tf.RaggedTensor]:
        """Returns the ids of `[N]` texts and the offsets of the pieces.

        Offsets count code points of the original text, before cleaning,
        lower-casing and decomposition, but without the bytes that are not
        UTF-8. A piece covers its first to its last character. Removed
        characters (combining accents, controls) are covered between two kept
        ones, but not at the ends of a piece. An unknown word is covered
        completely. Two pieces of one character, such as the letters of a Hangul
        syllable, both cover it. Marks that NFD reorders exchange their
        positions.

        Returns:
            `ids`, `starts` and `ends`, each `[N, (pieces)]` ragged int32; a
            piece covers the characters `[start, end)`.
        """
        return self._splitter.tokenize(text)

    def id_of(self, token: str) -> int:
        """Returns the id of a token of the vocabulary."""
        return self.definition.vocab[token]

    def _check(self) -> None:
        rows = self._splitter.tokenize(tf.constant(_PROBES))["ids"].to_list()
        for ids, probe in zip(rows, _PROBES, strict=True):
            pieces = self.definition.tokenize(probe)
            expected = self.definition.convert_tokens_to_ids(pieces)
            if ids != expected:
                raise ValueError(
                    f"TensorFlow Text {tf_text.__version__} must split "
                    f"{probe!r:.80} into {expected!s:.200}, as the definition "
                    f"does; got {ids!s:.200}. Install the version in "
                    "requirements/base.txt."
                )


# ------------------------------------------------------------- Words to pieces


class _WordPieces:
    def __init__(self, vocab: Mapping[str, int], rules: _Rules):
        # The number of a piece in TensorFlow Text is not its id: the vocabulary
        # may have a piece twice, or pieces that no text contains.
        pieces = _possible_pieces(vocab)
        model = model_builder.build_fast_wordpiece_model(
            pieces,
            _MAX_WORD_BYTES,
            "##",
            _UNKNOWN,
            True,  # Its input is words, not texts.
            False,  # No detokenization.
        )
        self._model = np.frombuffer(model, np.uint8)
        self._ids = np.array([vocab[piece] for piece in pieces], np.int32)
        self._unknown = pieces.index(_UNKNOWN)
        self._rules = rules

    def tokenize(self, text: tf.Tensor) -> dict[str, tf.RaggedTensor]:
        parts = split(text, self._rules)
        words = parts.words
        length = tf.strings.length(words.values, unit="UTF8_CHAR")
        # No word contains brackets.
        short = tf.where(length > _MAX_WORD_CHARACTERS, _UNKNOWN, words.values)
        splitter = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.constant(self._model),
            token_out_type=tf.int32,
            no_pretokenization=True,
        )
        # Bytes of the words, `[W, (pieces)]`.
        numbers, starts, ends = splitter.tokenize_with_offsets(short)
        num_bytes = tf.cast(tf.strings.length(words.values), tf.int64)  # [W]
        word = numbers.value_rowids()
        # A word that is too long was replaced.
        is_unknown = numbers.values == self._unknown
        ends = tf.where(is_unknown, tf.gather(num_bytes, word), ends.values)
        # Offsets of bytes become those of characters.
        codes = parts.chars.values[:, tf.newaxis]  # [characters, 1]
        is_longer = tf.cast(codes >= [0x80, 0x800, 0x10000], tf.int32)
        origins = tf.repeat(
            parts.origins.values, 1 + tf.reduce_sum(is_longer, axis=1)
        )
        first = tf.gather(tf.cumsum(num_bytes, exclusive=True), word)

        def by_text(values: tf.Tensor) -> tf.RaggedTensor:
            values = numbers.with_values(tf.cast(values, tf.int32))
            return words.with_values(values).merge_dims(1, 2)

        return {
            "ids": by_text(tf.gather(self._ids, numbers.values)),
            "starts": by_text(tf.gather(origins, first + starts.values)),
            "ends": by_text(tf.gather(origins, first + ends - 1) + 1),
        }


def _possible_pieces(vocab: Mapping[str, int]) -> list[str]:
    """Lists the pieces that a text can contain.

    Others may be too long for TensorFlow Text.
    """
    chars = set().union(*vocab)
    alone = set(filter(tokenization.stands_alone, chars))
    never = {
        char
        for char in chars
        if tokenization.is_removed(char) or char.isspace()
    }

    def is_possible(piece: str) -> bool:
        spelling = piece.removeprefix("##")
        return (
            0 < len(spelling) <= _MAX_WORD_CHARACTERS
            and never.isdisjoint(spelling)
            and (len(piece) == 1 or alone.isdisjoint(spelling))
        )

    return [piece for piece in vocab if piece == _UNKNOWN or is_possible(piece)]


# --------------------------------------------------------------- Text to words


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


def split(text: tf.Tensor, rules: _Rules) -> Words:
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


class _CodePointTable:
    """A number for each character.

    Equal pages of 256 code points share their numbers.

    Args:
        number_of: the numbers; that of any other character is 0.
    """

    def __init__(self, number_of: Mapping[str, int]):
        numbers = np.zeros(_NUM_CODE_POINTS, np.int32)
        numbers[list(map(ord, number_of))] = list(number_of.values())
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


class _ReplacementTable:
    """The replacements of characters.

    Args:
        replacement_of: character -> code points of its replacement, possibly
            none; any other character stays itself.
        alone: characters that are words by themselves and replaced by
            themselves.
    """

    def __init__(
        self,
        replacement_of: Mapping[str, tuple[int, ...]],
        alone: frozenset[str] = frozenset(),
    ):
        rows = dict.fromkeys(replacement_of.values())
        number = {row: 2 + place for place, row in enumerate(rows)}
        self._row_of = _CodePointTable(
            {
                **{char: number[row] for char, row in replacement_of.items()},
                **dict.fromkeys(alone, _ITSELF_ALONE),
            }
        )
        self._parts = np.array([part for row in rows for part in row], np.int32)
        # The first two rows have one part each, after all others.
        self._counts = np.array([1, 1, *map(len, rows)], np.int64)
        ends = np.cumsum(self._counts[2:])
        self._firsts = np.array([0, 0, *(ends - self._counts[2:])], np.int64)

    def __call__(self, codes: tf.Tensor) -> tf.RaggedTensor:
        """Replaces `[C]` int32 code points: `[C, (parts)]` int32."""
        row = self._row_of(codes)
        is_itself = row <= _ITSELF_ALONE
        copy = len(self._parts) + tf.range(tf.size(codes, tf.int64))
        first = tf.where(is_itself, copy, tf.gather(self._firsts, row))
        places = tf.ragged.range(first, first + tf.gather(self._counts, row))
        themselves = tf.where(row == _ITSELF_ALONE, codes + _ALONE, codes)
        parts = tf.concat([self._parts, themselves], 0)
        return places.with_values(tf.gather(parts, places.values))


def folded(char: str, rules: _Rules) -> str:
    """Returns the replacement of a character, without spaces around it.

    It is empty for a character that is dropped, and a space for white space.
    """
    if tokenization.is_removed(char):
        return ""
    if char.isspace():  # `str.split` splits at U+2028 and U+2029 too.
        return " "
    return rules.fold(char)


@functools.cache
def assigned_characters() -> tuple[str, ...]:
    """Lists the assigned characters of Unicode, in order."""
    return tuple(
        char
        for char in map(chr, range(_NUM_CODE_POINTS))
        if unicodedata.category(char) not in _UNASSIGNED
    )


@functools.cache
def _replacements(rules: _Rules) -> _ReplacementTable:
    """Returns the replacements of all characters."""
    replacement_of, alone = {}, set()
    # The blocks of ideographs contain unassigned code points too.
    ideographs = set(tokenization.cjk_ideographs())
    for char in sorted(ideographs.union(assigned_characters())):
        parts = folded(char, rules)
        are_alone = [
            char in ideographs or tokenization.is_punctuation(part)
            for part in parts
        ]
        if parts != char:
            replacement_of[char] = tuple(
                ord(part) + _ALONE * is_alone
                for part, is_alone in zip(parts, are_alone, strict=True)
            )
        elif any(are_alone):
            alone.add(char)
    return _ReplacementTable(replacement_of, frozenset(alone))


# -------------------------------------------- Rules that depend on neighbors


@functools.cache
def _sigma_effects() -> _CodePointTable:
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
    return _CodePointTable(effects)


def _with_final_sigmas(chars: tf.RaggedTensor) -> tf.Tensor:
    # For `str.lower`, a sigma is final after a letter with case and not before
    # one; ignored characters between them do not count.
    is_sigma = chars.values == ord(_CAPITAL_SIGMA)

    def rewritten() -> tf.Tensor:
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
def _marks(
    rules: _Rules,
) -> tuple[_CodePointTable, _ReplacementTable, _CodePointTable]:
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
    return (
        _CodePointTable(sortable),
        _ReplacementTable(decomposed),
        _CodePointTable(order_of),
    )


def _order(char: str, rules: _Rules) -> int:
    if tokenization.is_removed(char):
        return _VANISHING
    if folded(char, rules):
        return unicodedata.combining(char)
    if all(map(unicodedata.combining, unicodedata.normalize("NFD", char))):
        return _VANISHING
    return _VANISHING_STARTER


def _with_sorted_marks(
    chars: tf.RaggedTensor, origins: tf.Tensor, rules: _Rules
) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Puts the marks that are kept into canonical order.

    Characters that contain such marks are decomposed. The origins ascend: marks
    that are reordered exchange them.
    """
    sortable, decomposed, order_of = _marks(rules)

    def in_order() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
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
