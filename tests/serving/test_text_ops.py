"""Single operations against what Python's own strings do."""

import random
import unicodedata

import tensorflow as tf

from serving import context_ops, text_ops

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
    assert _strings(text_ops.decoded(tf.constant(texts))) == expected


def test_valid_texts_pass_unchanged():
    texts = ["", "\0a\0", "\ufeffa\ufffe\uffff", "\ud7ff\ue000\U0010ffff"]
    assert _strings(text_ops.decoded(tf.constant(texts))) == texts


def test_sigmas_are_those_of_python():
    rng = random.Random(8)
    chars = "\u03a3\u03a3\u03a3\u03c2aB'\u0301\xaa\u02b0 !\u4e00\n"
    texts = [
        "".join(rng.choices(chars, k=rng.randint(0, 12))) for _ in range(20_000)
    ]
    rewritten = _strings(context_ops.final_sigmas(tf.constant(texts)))
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

    resolved = _strings(context_ops.resolve_context(tf.constant(texts)))
    # Each character by itself from here on, as a table replaces it.
    apart = ["".join(map(without_accents, t)) for t in resolved]
    assert [t.replace("\xad", "") for t in apart] == [
        without_accents(t.replace("\xad", "")) for t in texts
    ]


def test_runs_of_flags_are_found_at_any_length():
    flags = tf.constant([False, True, True, True, True, True, False, True])
    for length in range(1, 10):
        assert bool(text_ops._has_run(flags, length)) == (length <= 5)
    assert not text_ops._has_run(tf.zeros([0], tf.bool), 3)
