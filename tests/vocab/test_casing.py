"""The casing that a vocabulary shows."""

import itertools
import string

import pytest

from bert.files import lines
from tests.support import locations
from vocab import casing

_INPUTS = locations.GOLDEN / "inputs"
_SHARED = locations.SHARED / "data/vocab"


def _words(number, letters=string.ascii_lowercase):
    pairs = itertools.product(letters, repeat=3)
    return ["".join(word) for word in itertools.islice(pairs, number)]


@pytest.mark.parametrize(
    ("entries", "want"),
    [
        (_words(1000), (True, True)),
        # Special tokens, and entries without letters, show nothing.
        ([*_words(1000), "[CLS]", "[MASK]", "<S>", "42"], (True, True)),
        ([*_words(980), *_words(20, string.ascii_uppercase)], (False, False)),
        ([*_words(990), *_words(10, string.ascii_uppercase)], (None, None)),
        ([*_words(999), *_words(1, string.ascii_uppercase)], (True, True)),
        ([*_words(990), *_words(10, "äöü")], (True, False)),
        ([*_words(997), *_words(3, "äöü")], (True, None)),
        ([*_words(999), *_words(1, "äöü")], (True, True)),
        # Decomposed Hangul is what stripping accents leaves.
        ([*_words(990), *["한국"] * 10], (True, False)),
        ([*_words(990), *["\u1112\u1161\u11ab"] * 10], (True, True)),
        # A smaller vocabulary may lack capitals by chance.
        (_words(499), (None, None)),
        (_words(500), (True, True)),
        ([], (None, None)),
    ],
)
def test_capitals_and_accents_show_the_casing(entries, want):
    shown = casing.from_entries(entries)
    assert (shown.do_lower_case, shown.strip_accents) == want


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("uncased.txt", (True, True)),
        ("chinese.txt", (True, True)),
        ("cased.txt", (False, False)),
        ("multilingual_cased.txt", (False, False)),
    ],
)
def test_released_vocabularies_show_their_casing(name, want):
    if not (_SHARED / name).exists():
        pytest.skip(f"no {name}")
    shown = casing.from_entries(
        line.strip() for line in lines.read_lines(str(_SHARED / name))
    )
    assert (shown.do_lower_case, shown.strip_accents) == want


@pytest.mark.parametrize(
    ("entries", "options", "warning"),
    [
        (_words(600), (True, True), ""),
        (_words(600), (False, False), "do_lower_case is False, but no entry"),
        (["The", "a"], (True, True), "do_lower_case is True, but entries"),
        (["The", "a"], (False, False), ""),
        (["[PAD]"], (True, True), ""),
        # Few entries without capitals show nothing.
        (["the", "a"], (False, False), ""),
        (["häuser", "haus"], (True, True), "strip_accents is True, but entr"),
        (["häuser", "haus"], (True, False), ""),
        (_words(600), (True, False), "strip_accents is False, but no entry"),
        # As many capitals as chance gives show neither.
        ([*_words(990), *_words(10, "ABC")], (True, True), ""),
        ([*_words(990), *_words(10, "ABC")], (False, False), ""),
    ],
)
def test_contradictions_name_the_flag_and_its_other_value(
    entries, options, warning
):
    do_lower_case, strip_accents = options
    sentences = casing.contradictions(
        entries, do_lower_case=do_lower_case, strip_accents=strip_accents
    )
    assert len(sentences) == bool(warning)
    for sentence in sentences:
        assert sentence.startswith(warning)
        name, _, value, *_ = sentence.split()
        other = value.rstrip(",") == "False"
        assert f"Pass --{name}={other} or another vocabulary." in sentence


def test_vowel_signs_are_stripped_like_accents():
    words = [first + sign for first in "कखगघ" for sign in "ािीुू"]
    (sentence,) = casing.contradictions(
        words, do_lower_case=True, strip_accents=True
    )
    assert sentence.startswith("strip_accents is True, but entries of the")
    for lower, strip in ((True, False), (False, False)):
        assert not casing.contradictions(
            words, do_lower_case=lower, strip_accents=strip
        )
