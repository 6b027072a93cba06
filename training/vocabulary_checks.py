"""Checks of a vocabulary against the model that it is used with."""

import itertools
import re
import unicodedata

from absl import logging

from files import lines

_SPECIAL = re.compile(r"\[.*\]|<.*>")
_UNUSED = re.compile(r"\[unused\d+\]")
# Shares of entries that lower-casing and accent stripping would change. They
# change none of the released uncased vocabulary, 30 % of the cased ones, and 2
# of 21,128 of the Chinese one, whose model reads lower-cased text.
_LEAST_SHARE_CASED = 0.02
_MOST_SHARE_UNCASED = 0.001
# A smaller vocabulary does not show its casing.
_LEAST_LETTERED_ENTRIES = 500


def entries(path: str) -> list[str]:
    """Lists the entries of a vocabulary file, in order.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not UTF-8.
    """
    return [line.strip() for line in lines.read_lines(path)]


def is_lower_case(path: str) -> bool | None:
    """Returns whether a vocabulary is of lower-cased text without accents.

    Returns:
        None if the entries do not show it.

    Raises:
        OSError, ValueError: as `entries`.
    """
    words = [e for e in entries(path) if not _SPECIAL.fullmatch(e)]
    lettered = [word for word in words if word.lower() != word.upper()]
    if len(lettered) < _LEAST_LETTERED_ENTRIES:
        return None
    share = sum(_lowered(word) != word for word in words) / len(words)
    if share >= _LEAST_SHARE_CASED:
        return False
    return True if share <= _MOST_SHARE_UNCASED else None


def check_same(ours: str, theirs: str) -> None:
    """Checks that a vocabulary equals that of a model.

    Any word may replace an `[unusedN]` entry of the model's vocabulary, as the
    release suggests.

    Args:
        ours: the file in use.
        theirs: the file of the model.

    Raises:
        OSError, ValueError: as `entries`.
        ValueError: they differ in size or in an entry; names the first.
    """
    ours_entries, theirs_entries = entries(ours), entries(theirs)
    if ours_entries == theirs_entries:
        return
    replaced = 0
    for number, (one, other) in enumerate(
        itertools.zip_longest(ours_entries, theirs_entries), start=1
    ):
        if one == other:
            continue
        if one is not None and other and _UNUSED.fullmatch(other):
            replaced += 1
            continue
        raise ValueError(
            f"The vocabulary must be that of the model: {ours} "
            f"({len(ours_entries)} entries) differs from {theirs} "
            f"({len(theirs_entries)} entries) first in line {number}: "
            f"{_shown(one)}, there {_shown(other)}. Pass "
            f"--vocab_file={theirs}."
        )
    logging.info(
        "%s replaces %d [unusedN] entries of %s.", ours, replaced, theirs
    )


def _lowered(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _shown(entry: str | None) -> str:
    return "the end" if entry is None else repr(entry)
