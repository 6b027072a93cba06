"""Character offsets of word pieces in the original text.

Offsets count code points of the original text, before cleaning, lower-casing
and decomposition, so that `text[start:end]` is the source of a piece. A piece
covers its first to its last character. Removed characters (combining accents,
controls) are covered between two kept ones, but not at the ends of a piece. An
unknown word is covered completely. Two pieces of one character, such as the
letters of a Hangul syllable, both cover it. Marks that NFD reorders exchange
their positions.
"""

import dataclasses
import unicodedata
from collections.abc import Iterator

from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A word piece and the characters `[start, end)` that it covers."""

    piece: str
    start: int
    end: int


def tokenize_with_offsets(
    basic: tokenization.BasicTokenizer,
    wordpiece: tokenization.WordpieceTokenizer,
    text: str | bytes,
) -> list[Span]:
    """Returns the word pieces of a text with their offsets.

    Args:
        basic: splits the text into words.
        wordpiece: splits words into pieces.
        text: bytes are UTF-8; invalid ones are skipped and not counted.

    Raises:
        ValueError: `text` is neither `str` nor `bytes`.
    """
    text = tokenization.convert_to_unicode(text)
    spans = []
    for word, origins in _words(text, do_lower_case=basic.do_lower_case):
        position = 0
        for piece in wordpiece.tokenize(word):
            length = len(piece) - (2 if position else 0)  # Without "##".
            if piece == wordpiece.unk_token:  # Words contain no brackets.
                length = len(word)
            end = position + length
            spans.append(
                Span(
                    piece=piece,
                    start=origins[position],
                    end=origins[end - 1] + 1,
                )
            )
            position = end
    return spans


def _words(
    text: str, *, do_lower_case: bool
) -> Iterator[tuple[str, list[int]]]:
    """Yields the words of a text and the original offset of each character."""
    folded, origins = _folded(text, do_lower_case=do_lower_case)
    start = 0
    for index, char in enumerate(folded):
        is_apart = tokenization.is_punctuation(char)
        if not is_apart and not char.isspace():
            continue
        if start < index:
            yield folded[start:index], origins[start:index]
        if is_apart:
            yield char, [origins[index]]
        start = index + 1
    if start < len(folded):
        yield folded[start:], origins[start:]


def _folded(text: str, *, do_lower_case: bool) -> tuple[str, list[int]]:
    """Cleans and optionally lower-cases a text; returns it and the offsets."""
    cleaned: list[str] = []
    origins: list[int] = []
    for index, char in enumerate(text):
        if tokenization.is_removed(char):
            continue
        apart = " " if tokenization.is_cjk_ideograph(char) else ""
        for part in (apart, char, apart):
            cleaned += part
            origins += [index] * len(part)
    if not do_lower_case:
        return "".join(cleaned), origins
    # Lower-casing and decomposition depend on context (final sigma, order of
    # marks), but give as many characters as without it.
    counts = [len(_without_accents(char.lower())) for char in cleaned]
    repeated = [
        origin
        for origin, count in zip(origins, counts, strict=True)
        for _ in range(count)
    ]
    return _without_accents("".join(cleaned).lower()), repeated


def _without_accents(text: str) -> str:
    return "".join(
        char
        for char in unicodedata.normalize("NFD", text)
        if not tokenization.is_combining_mark(char)
    )
