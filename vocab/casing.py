"""The casing that a vocabulary shows: capitals and accents in its entries.

A tokenizer lower-cases text and strips accents before it looks words up. A
vocabulary therefore has no entries with capitals, or none with accents, if its
tokenizer removes them.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Sequence

from vocab import tokenization

_SPECIAL_TOKEN = re.compile(r"\[.*\]|<.*>")
# Shares of entries with capitals, or with accents. Of the released
# vocabularies, the uncased ones have none of either; the cased English one has
# 29 % with capitals and 2 % with accents.
_LEAST_SHARE_CAPITALIZED = 0.02
_LEAST_SHARE_ACCENTED = 0.005
_MOST_SHARE = 0.001
# A smaller vocabulary may lack capitals or accents by chance.
_LEAST_LETTERED_ENTRIES = 500


@dataclasses.dataclass(frozen=True, kw_only=True)
class Casing:
    """The options of a tokenizer that a vocabulary shows; None: not shown."""

    do_lower_case: bool | None = None
    strip_accents: bool | None = None


def from_entries(entries: Iterable[str]) -> Casing:
    """Returns the casing that the entries of a vocabulary show.

    Args:
        entries: in any order. Special tokens, such as `[CLS]`, do not count.
    """
    words = _words(entries)
    return _of_words(words) if _is_large(words) else Casing()


def _words(entries: Iterable[str]) -> list[str]:
    return [entry for entry in entries if not _SPECIAL_TOKEN.fullmatch(entry)]


def _is_large(words: Sequence[str]) -> bool:
    num_lettered = sum(word.lower() != word.upper() for word in words)
    return num_lettered >= _LEAST_LETTERED_ENTRIES


def _of_words(words: Sequence[str]) -> Casing:
    capitals = sum(map(_is_capitalized, words))
    accents = sum(map(_is_accented, words))
    if capitals and capitals >= _LEAST_SHARE_CAPITALIZED * len(words):
        # No published tokenizer keeps capitals and strips accents.
        return Casing(do_lower_case=False, strip_accents=False)
    if capitals > _MOST_SHARE * len(words):
        return Casing()
    strip_accents = None
    if accents and accents >= _LEAST_SHARE_ACCENTED * len(words):
        strip_accents = False
    elif accents <= _MOST_SHARE * len(words):
        strip_accents = True
    return Casing(do_lower_case=True, strip_accents=strip_accents)


def _is_capitalized(word: str) -> bool:
    # Composed, because lower-casing decomposes some letters, such as İ.
    lowered = unicodedata.normalize("NFC", word.lower())
    return lowered != unicodedata.normalize("NFC", word)


def _is_accented(word: str) -> bool:
    return tokenization.without_accents(word) != word


def contradictions(
    entries: Iterable[str], *, do_lower_case: bool, strip_accents: bool
) -> list[str]:
    """Describes how the options of a tokenizer contradict a vocabulary.

    Args:
        entries: of the vocabulary.
        do_lower_case, strip_accents: options of the tokenizer.

    Returns:
        Sentences for warnings, at most one.
    """
    words = _words(entries)
    vocabulary = _of_words(words)
    for name, removes, removed, of_vocabulary in (
        ("do_lower_case", do_lower_case, "capital", vocabulary.do_lower_case),
        ("strip_accents", strip_accents, "accent", vocabulary.strip_accents),
    ):
        if of_vocabulary in (None, removes):
            continue
        if removes:
            return [
                f"{name} is True, but entries of the vocabulary have {removed}s"
                f", and no text would match them. Pass --{name}=False or "
                "another vocabulary."
            ]
        if _is_large(words):
            return [
                f"{name} is False, but no entry of the vocabulary has "
                f"{'a capital' if removed == 'capital' else 'an accent'}, and "
                f"words with {removed}s become [UNK]. Pass --{name}=True or "
                "another vocabulary."
            ]
    return []
