"""The cache of words gives the ids of the definition."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import definition as plain
from tests.support import locations
from vocab import word_memory

_INPUTS = locations.GOLDEN / "inputs"


def _tokenizer(do_lower_case):
    name = "vocab.txt" if do_lower_case else "vocab_cased.txt"
    return word_memory.WordMemory(str(_INPUTS / name), do_lower_case)


_TOKENIZERS = {lower: _tokenizer(lower) for lower in (True, False)}


def _assert_same(tokenizer, texts):
    encoded = tokenizer.encode(texts)
    expected = [
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
        for text in texts
    ]
    assert encoded.row_lengths.tolist() == list(map(len, expected))
    rows = np.split(encoded.ids, np.cumsum(encoded.row_lengths))[:-1]
    assert [row.tolist() for row in rows] == expected


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_character_in_and_between_words(do_lower_case):
    chars = [chr(code) for code in range(sys.maxunicode + 1)]
    # Many characters to a text, so that they are few.
    texts = [
        "".join(f"a{char}b {char}C" for char in chars[start : start + 2000])
        for start in range(0, len(chars), 2000)
    ]
    _assert_same(_TOKENIZERS[do_lower_case], texts)


_ALPHABET = "ab AB1.$ \t\r\n\x0b\x1c\x85\xa0\xad\u0301\u0345\u03a3\u2028\u4e2d"


@settings(max_examples=300)
@given(
    st.lists(st.text(_ALPHABET, max_size=30) | st.text(max_size=20)),
    st.booleans(),
)
def test_any_text(texts, do_lower_case):
    _assert_same(_TOKENIZERS[do_lower_case], texts)


def test_long_words_and_a_full_memory(monkeypatch):
    # Small, so that it is full; what it has shows in no id.
    monkeypatch.setattr(word_memory, "_MAX_WORDS", 3)
    tokenizer = _tokenizer(True)
    words = [*"abcdefg", "a" * 100, "a" * 101, "b" * 200, "c" * 201, *"abc"]
    for _ in range(2):
        _assert_same(tokenizer, [" ".join(words), *words])
    for memory in (tokenizer._ids_of.__self__, tokenizer._ids_of_part.__self__):
        assert 0 < len(memory) <= 3
        assert max(map(len, memory)) <= 100


def test_a_word_without_an_unknown_token_is_an_error(tmp_path):
    path = tmp_path / "vocab"
    path.write_text("a\n", encoding="utf-8")
    tokenizer = word_memory.WordMemory(str(path))
    nothing = tokenizer.encode([])
    assert nothing.ids.shape == nothing.row_lengths.shape == (0,)
    assert nothing.ids.dtype == np.int32
    assert tokenizer.encode(["A a"]).ids.tolist() == [0, 0]
    with pytest.raises(KeyError, match="UNK"):
        tokenizer.encode(["b"])


@settings(max_examples=100)
@given(st.text(_ALPHABET, max_size=30) | st.text(max_size=20), st.booleans())
def test_the_plain_definition_says_the_same(text, do_lower_case):
    definition = _TOKENIZERS[do_lower_case]
    assert definition.tokenize(text) == plain.tokenize(
        text, definition.vocab, do_lower_case=do_lower_case
    )
