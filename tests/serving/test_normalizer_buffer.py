"""Buffers of replacements, as the installed TensorFlow Text reads them."""

import random

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from serving import normalization


def _normalize(table, texts, *, lower_case=False):
    buffer = normalization.buffer_of(table, lower_case=lower_case)
    normalizer = tf_text.FastBertNormalizer(
        model_buffer=tf.constant(np.frombuffer(buffer, np.uint8))
    )
    return [
        text.decode() for text in normalizer.normalize(texts).numpy().tolist()
    ]


@pytest.mark.parametrize("lower_case", [True, False])
def test_characters_of_every_length_are_replaced_and_others_kept(lower_case):
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
    assert _normalize(table, texts, lower_case=lower_case) == [
        *texts[:2],
        *table.values(),
        " B nulab",
    ]


def test_a_table_of_nothing_keeps_all():
    assert _normalize({}, ["a\0b", "\u1e9e"]) == ["a\0b", "\u1e9e"]


def test_random_tables_hold_for_every_code_point():
    rng = random.Random(11)
    chars = [*map(chr, range(0xD800)), *map(chr, range(0xE000, 0x110000))]
    table = {
        char: "".join(rng.choices(chars, k=rng.randint(0, 4)))
        for char in rng.sample(chars, 5000)
    }
    expected = [table.get(char, char) for char in chars]
    assert _normalize(table, chars) == expected


def test_offsets_lead_back_to_the_replaced_characters():
    buffer = normalization.buffer_of({"\xe9": "ab", "-": ""}, lower_case=False)
    normalizer = tf_text.FastBertNormalizer(
        model_buffer=tf.constant(np.frombuffer(buffer, np.uint8))
    )
    _, places = normalizer.normalize_with_offsets(["x-\xe9y"])
    assert places.to_list() == [[0, 2, 2, 4, 5]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"ab": ""}, "must be one character; got 'ab'"),
        ({"": "a"}, "must be one character; got ''"),
        ({"a": "\u4e2d" * 22}, "at most 63 bytes; that of 'a' has 66"),
    ],
)
def test_replacements_that_do_not_fit_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        normalization.buffer_of(table, lower_case=True)


def test_too_many_replacements_are_refused(monkeypatch):
    monkeypatch.setattr(normalization, "_MAX_POOL_BYTES", 3)
    with pytest.raises(ValueError, match="at most 3 bytes together; got 4"):
        normalization.buffer_of({"a": "xy", "b": "zw"}, lower_case=True)
    monkeypatch.setattr(normalization, "_MAX_UNITS", 300)
    with pytest.raises(ValueError, match="fewer than 300 units"):
        normalization.buffer_of({"a": "x"}, lower_case=True)
