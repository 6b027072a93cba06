"""The kinds of characters that the tokenizer of the release tells apart.

Categories are those of the running Python (`unicodedata`), as released.
Python 3.12 and 3.13 agree; 3.11 differs from them in 65 code points that
Unicode 15.0 newly assigned (35 marks, 23 punctuation marks, 7 controls).

Source: behaviour of tokenization.py of google-research/bert, measured.
"""

import unicodedata

# As released: Extensions F and later, kana and hangul are not among them.
_CJK_BLOCKS = (
    (0x4E00, 0x9FFF),  # CJK Unified Ideographs
    (0x3400, 0x4DBF),  # Extension A
    (0x20000, 0x2A6DF),  # Extension B
    (0x2A700, 0x2B73F),  # Extension C
    (0x2B740, 0x2B81F),  # Extension D
    (0x2B820, 0x2CEAF),  # Extension E
    (0xF900, 0xFAFF),  # CJK Compatibility Ideographs
    (0x2F800, 0x2FA1F),  # CJK Compatibility Ideographs Supplement
)


def is_whitespace(char: str) -> bool:
    """Tells whether cleaning turns a character into a space.

    U+2028 and U+2029 are not among them; they separate words all the same,
    because `str.split` does it later.
    """
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_removed(char: str) -> bool:
    """Tells whether cleaning drops a character, joining its neighbours.

    As released: controls (U+0085 and the form feed too) and format
    characters vanish, as do U+0000 and U+FFFD; private use, surrogates and
    unassigned code points are kept.
    """
    if char in "\t\n\r":
        return False
    return char in "\0\ufffd" or unicodedata.category(char) in ("Cc", "Cf")


def is_combining_mark(char: str) -> bool:
    """Tells whether a decomposed character is dropped as an accent."""
    return unicodedata.category(char) == "Mn"


def is_punctuation(char: str) -> bool:
    """Tells whether a character stands alone as a punctuation mark.

    As released: every ASCII symbol does; other symbols (Sc, Sm, So) do not.
    """
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")


def is_cjk_ideograph(char: str) -> bool:
    """Tells whether a character stands alone as a CJK ideograph."""
    return any(first <= ord(char) <= last for first, last in _CJK_BLOCKS)
