"""The tables against Python's own lower case and decomposition."""

import random
import unicodedata

import pytest
import tensorflow as tf

from serving import normalization
from vocab import tokenization


@pytest.mark.parametrize(
    ("char", "uncased", "cased"),
    [
        ("a", "a", "a"),
        ("\xc9", "e", "\xc9"),
        ("\u0130", "i", "\u0130"),
        ("\u0301", "", "\u0301"),
        ("\u200b", "", ""),
        ("\x0b", "", ""),
        ("\u2028", " ", " "),
        ("\u3000", " ", " "),
        ("\ud55c", "\u1112\u1161\u11ab", "\ud55c"),
        ("\uf900", "\u8c48", "\uf900"),
        ("\u226e", "<", "\u226e"),
        ("\ufb01", "\ufb01", "\ufb01"),
    ],
)
def test_characters_fold_as_worked_by_hand(char, uncased, cased):
    assert normalization.folded(char, do_lower_case=True) == uncased
    assert normalization.folded(char, do_lower_case=False) == cased


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_assigned_character_folds_to_its_words(do_lower_case):
    basic = tokenization.BasicTokenizer(do_lower_case)
    chars = normalization.assigned_characters()
    assert len(chars) > 140_000
    assert [
        char
        for char in chars
        if "".join(basic.tokenize(char))
        != normalization.folded(char, do_lower_case=do_lower_case).strip()
    ] == []


def test_no_character_but_an_ideograph_folds_to_one():
    for char in normalization.assigned_characters():
        folded = normalization.folded(char, do_lower_case=True)
        assert len(folded) == 1 or not any(
            map(tokenization.stands_alone, folded)
        )


# ------------------------------------- Operations against Python's own strings

# Bytes that begin, continue and spoil UTF-8, and the byte order mark.
_BYTES = bytes.fromhex("004120808f909fa0bfc0c1c2dfe0e2edeebbeff0f4f5ff")


def _strings(tensor):
    return [text.decode("utf-8") for text in tensor.numpy().tolist()]


def test_invalid_bytes_are_skipped_as_python_ignores_them():
    rng = random.Random(7)
    texts = [
        bytes(rng.choices(_BYTES, k=rng.randint(0, 9))) for _ in range(50_000)
    ]
    expected = [text.decode("utf-8", "ignore") for text in texts]
    valid = [e.encode() == t for e, t in zip(expected, texts, strict=True)]
    assert 1000 < sum(valid) < 49_000
    assert (
        _strings(normalization.drop_invalid_utf8(tf.constant(texts)))
        == expected
    )


def test_valid_texts_pass_unchanged():
    texts = ["", "\0a\0", "\ufeffa\ufffe\uffff", "\ud7ff\ue000\U0010ffff"]
    assert (
        _strings(normalization.drop_invalid_utf8(tf.constant(texts))) == texts
    )


def test_sigmas_are_those_of_python():
    rng = random.Random(8)
    chars = "\u03a3\u03a3\u03a3\u03c2aB'\u0301\xaa\u02b0 !\u4e00\n"
    texts = [
        "".join(rng.choices(chars, k=rng.randint(0, 12))) for _ in range(20_000)
    ]
    rewritten = _strings(normalization.final_sigmas(tf.constant(texts)))
    lowered = ["".join(map(str.lower, text)) for text in rewritten]
    assert lowered == [text.lower() for text in texts]


def test_marks_are_in_the_order_of_python():
    rng = random.Random(9)
    chars = "a\u0301\u0334\u0900\u1b44\u302e\U00016ff0\U0001d165\U0001d16d"
    chars += "\U0001d15f\U0001d160\xad\xe9"
    texts = [
        "".join(rng.choices(chars, k=rng.randint(0, 12))) for _ in range(20_000)
    ]

    def without_accents(text):
        return "".join(
            char
            for char in unicodedata.normalize("NFD", text)
            if unicodedata.category(char) != "Mn"
        )

    resolved = _strings(normalization.resolve_context(tf.constant(texts)))
    # Each character by itself from here on, as a table replaces it.
    apart = ["".join(map(without_accents, t)) for t in resolved]
    assert [t.replace("\xad", "") for t in apart] == [
        without_accents(t.replace("\xad", "")) for t in texts
    ]
