"""Tables of characters against Python's own lower case."""

import random

import pytest
import tensorflow as tf

from serving import normalization
from vocab import tokenization

_UNCASED = normalization.Rules(do_lower_case=True, strip_accents=True)
_CASED = normalization.Rules(do_lower_case=False, strip_accents=False)
_LOWER = normalization.Rules(do_lower_case=True, strip_accents=False)
_UNACCENTED = normalization.Rules(do_lower_case=False, strip_accents=True)


@pytest.mark.parametrize(
    ("char", "uncased", "lower", "cased"),
    [
        ("a", "a", "a", "a"),
        ("\xc9", "e", "\xe9", "\xc9"),
        ("\u0130", "i", "i\u0307", "\u0130"),
        ("\u0301", "", "\u0301", "\u0301"),
        ("\u200b", "", "", ""),
        ("\x0b", "", "", ""),
        ("\u2028", " ", " ", " "),
        ("\u3000", " ", " ", " "),
        ("\ud55c", "\u1112\u1161\u11ab", "\ud55c", "\ud55c"),
        ("\uf900", "\u8c48", "\uf900", "\uf900"),
        ("\u226e", "<", "\u226e", "\u226e"),
        ("\ufb01", "\ufb01", "\ufb01", "\ufb01"),
    ],
)
def test_characters_fold_as_worked_by_hand(char, uncased, lower, cased):
    assert normalization.folded(char, _UNCASED) == uncased
    assert normalization.folded(char, _LOWER) == lower
    assert normalization.folded(char, _CASED) == cased


@pytest.mark.parametrize("rules", [_UNCASED, _CASED, _LOWER])
def test_every_assigned_character_folds_to_its_words(rules):
    basic = tokenization.BasicTokenizer(**vars(rules))
    chars = normalization.assigned_characters()
    assert len(chars) > 140_000
    assert [
        char
        for char in chars
        if "".join(basic.tokenize(char))
        != normalization.folded(char, rules).strip()
    ] == []


# Bytes that begin, continue and spoil UTF-8, and the byte order mark.
_BYTES = bytes.fromhex("004120808f909fa0bfc0c1c2dfe0e2edeebbeff0f4f5ff")


def test_invalid_bytes_are_skipped_as_python_ignores_them():
    rng = random.Random(7)
    texts = [
        bytes(rng.choices(_BYTES, k=rng.randint(0, 9))) for _ in range(50_000)
    ]
    valid = ["", "\0a\0", "\ufeffa\ufffe\uffff", "\ud7ff\ue000\U0010ffff"]
    texts += [text.encode() for text in valid]
    expected = [text.decode("utf-8", "ignore") for text in texts]
    valid = [e.encode() == t for e, t in zip(expected, texts, strict=True)]
    assert 1000 < sum(valid) < 49_000
    found = normalization.drop_invalid_utf8(tf.constant(texts)).numpy()
    assert [text.decode() for text in found.tolist()] == expected


_SIGMAS = "\u03a3\u03a3\u03a3\u03c2aB'\u0301\xaa\u02b0 !\u4e00\n"
_MARKS = (
    "a\u0301\u0334\u0900\u1b44\u302e\U00016ff0\U0001d165\U0001d16d"
    "\U0001d15f\U0001d160\xad\xe9"
)


@pytest.mark.parametrize(
    ("chars", "rules"),
    [
        (_SIGMAS, _UNCASED),
        (_SIGMAS, _LOWER),
        (_MARKS, _UNCASED),
        (_MARKS, _UNACCENTED),
    ],
)
def test_sigmas_and_marks_are_those_of_python(chars, rules):
    rng = random.Random(8)
    texts = [
        "".join(rng.choices(chars, k=rng.randint(0, 12))) for _ in range(20_000)
    ]
    basic = tokenization.BasicTokenizer(**vars(rules))
    found = normalization.split(tf.constant(texts), rules).words.to_list()
    expected = [[w.encode() for w in basic.tokenize(text)] for text in texts]
    wrong = zip(texts, found, expected, strict=True)
    assert [text for text, got, want in wrong if got != want] == []
