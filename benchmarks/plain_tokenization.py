"""A reference implementation of tokenization, without tables or caches.

It follows the release step by step, as the expectation of tests and the
baseline of speed measurements of `vocab.tokenization`.
"""

import unicodedata
from collections.abc import Mapping

from vocab import tokenization

_MAX_WORD_CHARACTERS = 200  # Source: the release.


def tokenize(
    text: str, vocab: Mapping[str, int], *, do_lower_case: bool
) -> list[str]:
    """Splits a text into word pieces."""
    pieces = []
    for word in _cleaned(text).split():
        folded = _without_marks(word.lower()) if do_lower_case else word
        for part in _split_at_punctuation(folded):
            pieces += _pieces(part, vocab)
    return pieces


def _cleaned(text: str) -> str:
    kept = []
    for char in text:
        if tokenization.is_removed(char):
            continue
        if tokenization.is_whitespace(char):
            kept.append(" ")
        elif tokenization.is_cjk_ideograph(char):
            kept.append(f" {char} ")
        else:
            kept.append(char)
    return "".join(kept)


def _without_marks(word: str) -> str:
    return "".join(
        char
        for char in unicodedata.normalize("NFD", word)
        if not tokenization.is_combining_mark(char)
    )


def _split_at_punctuation(word: str) -> list[str]:
    parts = [""]
    for char in word:
        if tokenization.is_punctuation(char):
            parts += [char, ""]
        else:
            parts[-1] += char
    # A decomposition may contain white space.
    return [part for text in parts for part in text.split()]


def _pieces(word: str, vocab: Mapping[str, int]) -> list[str]:
    if len(word) > _MAX_WORD_CHARACTERS:
        return ["[UNK]"]
    pieces = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces
