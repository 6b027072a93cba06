"""Tables of characters against Python's own lower case; their buffers."""

import random
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

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
    valid = ["", "\0a\0", "\ufeffa\ufffe\uffff", "\ud7ff\ue000\U0010ffff"]
    texts += [text.encode() for text in valid]
    expected = [text.decode("utf-8", "ignore") for text in texts]
    valid = [e.encode() == t for e, t in zip(expected, texts, strict=True)]
    assert 1000 < sum(valid) < 49_000
    assert (
        _strings(normalization.drop_invalid_utf8(tf.constant(texts)))
        == expected
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


# ------------------------------------------------------------------ The buffer


def _replaced(table, texts):
    buffer = normalization.buffer_of(table)
    normalizer = tf_text.FastBertNormalizer(
        model_buffer=tf.constant(np.frombuffer(buffer, np.uint8))
    )
    return [
        text.decode() for text in normalizer.normalize(texts).numpy().tolist()
    ]


def test_characters_of_every_length_are_replaced_and_others_kept():
    table = {
        "\0": "nul",
        "a": "",
        "B": " B ",
        "\x7f": "d",
        "\x80": "\U0010ffff",
        "\u07ff": "2",
        "\u0800": "3" * 63,
        "\uffff": "a",
        "\U00010000": "4",
        "\U0010ffff": "",
    }
    texts = ["", "xyzA\xe9\u4e2d\U0001f600", *table, "Ba\0\uffffb"]
    assert _replaced(table, texts) == [
        *texts[:2],
        *table.values(),
        " B nulab",
    ]
    assert _replaced({}, ["a\0b", "\u1e9e"]) == ["a\0b", "\u1e9e"]


def test_random_tables_hold_for_every_code_point():
    rng = random.Random(11)
    chars = [*map(chr, range(0xD800)), *map(chr, range(0xE000, 0x110000))]
    table = {
        char: "".join(rng.choices(chars, k=rng.randint(0, 4)))
        for char in rng.sample(chars, 5000)
    }
    expected = [table.get(char, char) for char in chars]
    assert _replaced(table, chars) == expected


def test_offsets_lead_back_to_the_replaced_characters():
    buffer = normalization.buffer_of({"\xe9": "ab", "-": ""})
    normalizer = tf_text.FastBertNormalizer(
        model_buffer=tf.constant(np.frombuffer(buffer, np.uint8))
    )
    _, places = normalizer.normalize_with_offsets(["x-\xe9y"])
    assert places.to_list() == [[0, 2, 2, 4, 5]]
