"""What the definition makes of each code point, as tables.

`vocab.tokenization` says what happens to a string; nearly all of it happens
to each character by itself, and a table holds it. Two rules look around: the
small sigma at the end of a word, and the canonical order of marks. Both
concern lower-cased text only; `SigmaClasses` and `Marks` hold what they ask
about.

All tables follow the Unicode version of the running Python, as the
definition does.
"""

import dataclasses
import functools
import sys
import unicodedata

from vocab import characters

_UNASSIGNED = frozenset({"Cn", "Co", "Cs"})  # Also private use, surrogates.

# Orders of characters when marks are sorted, besides 1 to 254, the canonical
# combining class of a mark that stays.
STARTER = 0  # Stays; no mark moves past it.
VANISHING = 255  # Is dropped; marks move past it.
VANISHING_STARTER = 256  # Is dropped; no mark moves past it.


@dataclasses.dataclass(frozen=True, kw_only=True)
class SigmaClasses:
    """The characters that decide between the two small sigmas.

    Attributes:
        cased: letters with case.
        ignored: characters that are skipped in looking for a cased one; the
            ones that cleaning removes are among them.
    """

    cased: str
    ignored: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Marks:
    """What sorting the marks that stay (spacing and enclosing) needs.

    Attributes:
        telling: characters of which two must be in a text for the order to
            change: marks that can move, and characters that contain one.
        decomposed: the `telling` that stand for several characters -> those.
        order_of: character -> its order, `STARTER` where absent.
    """

    telling: str
    decomposed: dict[str, str]
    order_of: dict[str, int]


def assigned_characters() -> list[str]:
    """Lists the characters that Unicode says something about, in order."""
    return [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(char) not in _UNASSIGNED
    ]


def folded(char: str, *, do_lower_case: bool) -> str:
    """Returns what a character becomes, by itself, without any spaces.

    Nothing for a character that vanishes, one space for white space.
    """
    if characters.is_removed(char):
        return ""
    if char.isspace():  # Also U+2028 and U+2029, at which `str.split` cuts.
        return " "
    if not do_lower_case:
        return char
    return "".join(
        part
        for part in unicodedata.normalize("NFD", char.lower())
        if not characters.is_combining_mark(part)
    )


def stands_apart(char: str) -> bool:
    """Tells whether a character of a folded text is a word by itself."""
    return characters.is_punctuation(char) or characters.is_cjk_ideograph(char)


@functools.cache
def sigma_classes() -> SigmaClasses:
    """Sorts the characters by what `str.lower` makes of a sigma near them."""
    cased, ignored = [], []
    for char in assigned_characters():
        if characters.is_removed(char):
            ignored.append(char)
        elif f"{char}\u03a3".lower().endswith("\u03c2"):
            cased.append(char)
        elif f"A{char}\u03a3".lower().endswith("\u03c2"):
            ignored.append(char)
    return SigmaClasses(cased="".join(cased), ignored="".join(ignored))


@functools.cache
def marks() -> Marks:
    """Collects the characters that canonical ordering can move or drop."""
    telling = []
    decomposed = {}
    order_of = {}
    for char in assigned_characters():
        order = _order(char)
        if order != STARTER:
            order_of[char] = order
        parts = folded(char, do_lower_case=True)
        if any(map(unicodedata.combining, parts)):
            telling.append(char)
            if parts != char:
                decomposed[char] = parts
    return Marks(
        telling="".join(telling), decomposed=decomposed, order_of=order_of
    )


def _order(char: str) -> int:
    if characters.is_removed(char):
        return VANISHING
    if folded(char, do_lower_case=True):
        return unicodedata.combining(char)
    parts = unicodedata.normalize("NFD", char.lower())
    if all(map(unicodedata.combining, parts)):
        return VANISHING
    return VANISHING_STARTER
