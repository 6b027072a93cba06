import pathlib

import pytest

from vocab import tokenization, word_memory

_VOCAB = pathlib.Path(__file__).parents[1] / "golden" / "inputs" / "vocab.txt"


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.FullTokenizer(str(_VOCAB))


def test_words_are_tokenized_in_their_order(tokenizer):
    words = ["water,", "", "sun", "water,"]
    pieces_of = word_memory.tokenize_words(words, tokenizer)
    assert list(pieces_of) == ["water,", "", "sun"]
    assert pieces_of["water,"] == ("water", ",")
    assert pieces_of[""] == ()
    assert word_memory.tokenize_words([], tokenizer) == {}


def test_pieces_of_a_text_are_those_of_its_words(tokenizer):
    text = "  the water,  the\u00a0sun. "
    pieces_of = word_memory.tokenize_words(text.split(" "), tokenizer)
    assert word_memory.pieces_of_text(text, pieces_of) == tuple(
        tokenizer.tokenize(text)
    )


def test_other_processes_find_the_same_and_report(tokenizer, monkeypatch):
    monkeypatch.setattr(word_memory, "_MIN_WORDS_PER_PROCESS", 1)
    monkeypatch.setattr(word_memory, "_WORDS_PER_CHUNK", 4)
    words = [f"wind{number}" for number in range(10)]
    calls = []
    pieces_of = word_memory.tokenize_words(
        words, tokenizer, 2, progress=lambda *call: calls.append(call)
    )
    assert pieces_of == {w: tuple(tokenizer.tokenize(w)) for w in words}
    assert list(pieces_of) == words
    assert calls == [("words", done, 10) for done in (4, 8, 10)]
