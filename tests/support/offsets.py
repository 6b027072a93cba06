"""The definition of the offsets of word pieces, for every string."""

import dataclasses
from collections.abc import Iterator

from vocab import tokenization


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A word piece and the characters `[start, end)` that it covers."""

    piece: str
    start: int
    end: int


def spans_of(
    tokenizer: tokenization.FullTokenizer, text: str | bytes
) -> list[Span]:
    """Returns the word pieces of a text with their character offsets.

    `GraphTokenizer.tokenize_with_offsets` states the rules.
    """
    text = tokenization.convert_to_unicode(text)
    wordpiece = tokenizer.wordpiece_tokenizer
    spans = []
    for word, origins in _words(text, tokenizer.basic_tokenizer):
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
    text: str, basic: tokenization.BasicTokenizer
) -> Iterator[tuple[str, list[int]]]:
    """Yields the words of a text and the original offset of each character."""
    folded, origins = _folded(text, basic)
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


def _folded(
    text: str, basic: tokenization.BasicTokenizer
) -> tuple[str, list[int]]:
    """Cleans and folds a text; returns it and the offsets."""
    cleaned: list[str] = []
    origins: list[int] = []
    for index, char in enumerate(text):
        if tokenization.is_removed(char):
            continue
        apart = " " if tokenization.is_cjk_ideograph(char) else ""
        for part in (apart, char, apart):
            cleaned += part
            origins += [index] * len(part)
    # Lower-casing and decomposition depend on context (final sigma, order of
    # marks), but give as many characters as without it.
    repeated = [
        origin
        for origin, char in zip(origins, cleaned, strict=True)
        for _ in basic.fold(char)
    ]
    return basic.fold("".join(cleaned)), repeated
