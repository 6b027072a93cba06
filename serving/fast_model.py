"""The definition's rules and a vocabulary, as TensorFlow Text takes them.

TensorFlow Text works in two steps: a normalizer that replaces characters by
a table (`serving.normalizer_buffer`), and a word-piece model that cuts its
output at spaces and at what it holds for punctuation and ideographs, and
then into pieces. Where its idea of punctuation is not the definition's, the
table makes up for it: spaces around what it would leave together, and an
alias, a private-use character, for what it would cut apart. Pieces of the
vocabulary with such a character are spelt with the alias too.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from serving import normalization, normalizer_buffer

UNKNOWN = "[UNK]"
MAX_WORD_CHARACTERS = 200  # Source: the release.
_MAX_WORD_BYTES = 4 * MAX_WORD_CHARACTERS  # In UTF-8.
_PRIVATE_USE = ((0xE000, 0xF900), (0xF0000, 0xFFFFE), (0x100000, 0x10FFFE))


class UnsupportedVocabularyError(ValueError):
    """The definition can use a vocabulary that TensorFlow Text cannot."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FastModel:
    """What the operations need to know; `M` pieces can come out of them.

    The pieces that begin a word come first, those that continue one after
    them. The numbers of the pieces are not their ids: the vocabulary may
    name a piece twice, or have lines that no text gives.

    Attributes:
        do_lower_case: whether text is lower-cased and stripped of accents.
        normalizer: buffer of the table of replacements.
        wordpiece: buffer of the word-piece model.
        ids: `[M]` int32, piece -> its id in the vocabulary.
        lengths: `[M]` int32, piece -> its characters in a word; 0 for the
            unknown word.
        unknown: the number of the unknown word.
        num_initial: how many pieces begin a word, the unknown among them.
        unknown_character: a character that no entry of the vocabulary has.
    """

    do_lower_case: bool
    normalizer: bytes
    wordpiece: bytes
    ids: np.ndarray
    lengths: np.ndarray
    unknown: int
    num_initial: int
    unknown_character: str

    @property
    def min_pieces_of_long_word(self) -> int:
        """Fewest pieces that can spell a word that is too long."""
        return math.ceil(
            (MAX_WORD_CHARACTERS + 1) / int(self.lengths.max(initial=1))
        )


def build(vocab: Mapping[str, int], *, do_lower_case: bool) -> FastModel:
    """Builds the model of a vocabulary.

    Args:
        vocab: token -> id.
        do_lower_case: lower-cases and strips accents, as the definition does.

    Raises:
        UnsupportedVocabularyError: the vocabulary has no [UNK], no piece
            besides it, a piece that is too long for TensorFlow Text, or
            all private-use characters.
    """
    if UNKNOWN not in vocab:
        raise UnsupportedVocabularyError(
            f"The vocabulary must have the entry {UNKNOWN}, which stands for "
            "the words that it cannot spell; it has none."
        )
    unknown_character, aliases = _aliases(vocab)
    pieces = _pieces(vocab)
    table = _replacements(
        do_lower_case=do_lower_case,
        unknown_character=unknown_character,
        aliases=aliases,
    )
    return FastModel(
        do_lower_case=do_lower_case,
        normalizer=normalizer_buffer.build(table, lower_case=do_lower_case),
        wordpiece=_wordpiece_buffer(pieces, aliases),
        ids=np.array([vocab[piece] for piece in pieces], np.int32),
        lengths=np.array([_length(piece) for piece in pieces], np.int32),
        unknown=pieces.index(UNKNOWN),
        num_initial=sum(not _continues(piece) for piece in pieces),
        unknown_character=unknown_character,
    )


def _continues(piece: str) -> bool:
    return piece.startswith("##")


def _length(piece: str) -> int:
    return 0 if piece == UNKNOWN else len(piece.removeprefix("##"))


def _pieces(vocab: Mapping[str, int]) -> list[str]:
    """Lists the pieces that a text can give, those that begin words first.

    "#" is punctuation, so that no word begins with "##".
    """
    chars = set().union(*vocab)
    apart = set(filter(normalization.stands_apart, chars))
    never = {
        char
        for char in chars
        if normalization.folded(char, do_lower_case=False) in ("", " ")
    }

    def can_occur(piece: str) -> bool:
        spelling = piece.removeprefix("##")
        return (
            0 < len(spelling) <= MAX_WORD_CHARACTERS
            and never.isdisjoint(spelling)
            and (len(piece) == 1 or apart.isdisjoint(spelling))
        )

    pieces = [piece for piece in vocab if piece == UNKNOWN or can_occur(piece)]
    return sorted(pieces, key=_continues)


def _wordpiece_buffer(pieces: list[str], aliases: dict[str, str]) -> bytes:
    from tensorflow_text.core.pybinds import (
        pywrap_fast_wordpiece_tokenizer_model_builder as builder,
    )

    spellings = str.maketrans(aliases)
    try:
        return builder.build_fast_wordpiece_model(
            [piece.translate(spellings) for piece in pieces],
            _MAX_WORD_BYTES,
            "##",
            UNKNOWN,
            False,  # Words are not cut yet.
            False,  # Nothing is to be joined again.
        )
    except RuntimeError as error:
        raise UnsupportedVocabularyError(
            f"TensorFlow Text cannot take the vocabulary: {error}"
        ) from error


def _aliases(vocab: Mapping[str, int]) -> tuple[str, dict[str, str]]:
    """Chooses an unknown character, and aliases of those wrongly cut apart.

    All are private-use characters that the vocabulary does not use.
    """
    used = set().union(*vocab)
    free = (char for char in _private_use() if char not in used)
    wrongly_apart = sorted(
        char
        for char in used & characters_cut_apart()
        if not normalization.stands_apart(char)
    )
    try:
        return next(free), {char: next(free) for char in wrongly_apart}
    except StopIteration as error:
        raise UnsupportedVocabularyError(
            f"The vocabulary must leave {1 + len(wrongly_apart)} private-use "
            "characters unused."
        ) from error


def _private_use() -> Iterator[str]:
    for first, end in _PRIVATE_USE:
        yield from map(chr, range(first, end))


def _replacements(
    *, do_lower_case: bool, unknown_character: str, aliases: dict[str, str]
) -> dict[str, str]:
    """Makes the table: character -> replacement, where they differ."""
    table = dict(_common_replacements(do_lower_case=do_lower_case))
    for char in characters_cut_apart():
        is_kept = table.get(char, char) == char
        if is_kept and not normalization.stands_apart(char):
            table[char] = aliases.get(char, unknown_character)
    # A text may have the aliases too: no entry of the vocabulary does.
    table.update(dict.fromkeys(aliases.values(), unknown_character))
    return table


@functools.cache
def _common_replacements(*, do_lower_case: bool) -> Mapping[str, str]:
    """Makes the part of the table that no vocabulary changes."""
    cut_apart = characters_cut_apart()
    table = {}
    for char in normalization.assigned_characters():
        folded = normalization.folded(char, do_lower_case=do_lower_case)
        replacement = "".join(
            f" {part} "
            if normalization.stands_apart(part) and part not in cut_apart
            else part
            for part in folded
        )
        if replacement != char:
            table[char] = replacement
    return table


@functools.cache
def characters_cut_apart() -> frozenset[str]:
    """Asks TensorFlow Text which characters it makes words by themselves.

    Its tables come from another version of Unicode than Python's.
    """
    import tensorflow as tf
    import tensorflow_text as tf_text

    pieces = [UNKNOWN, "1", "0"]
    tokenizer = tf_text.FastWordpieceTokenizer(pieces, token_out_type=tf.int32)
    chars = [
        *map(chr, range(1, 0xD800)),
        *map(chr, range(0xE000, 0x110000)),
    ]
    # As a whole unknown ("1?0" is no piece), or "1", the character and "0".
    numbers = tokenizer.tokenize(tf.constant([f"1{char}0" for char in chars]))
    is_cut = (numbers.row_lengths() > 1).numpy()  # [C]
    return frozenset(
        char
        for char, cut in zip(chars, is_cut, strict=True)
        if cut and not char.isspace()
    )
