import pytest

from corpus import text_statistics
from vocab import tokenization

_WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "cat",
    "##s",
    "sat",
    ".",
]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(_WORDS) + "\n")
    return tokenization.FullTokenizer(str(path), do_lower_case=True)


def test_a_text_by_hand(tokenizer):
    documents = [
        ["Cats sat.", "dog DOG sat."],
        ["Cats sat."],
        ["Cats sat.", "cat"],
    ]
    found = text_statistics.measure(iter(documents), tokenizer, max_pieces=3)
    assert found.num_documents == 3
    assert found.num_single == 1
    assert found.num_sentences == 5
    assert found.sentences_per_document.largest == 2
    # Cats sat . / dog dog sat .
    assert found.num_words == 3 + 4 + 3 + 3 + 1
    assert found.num_pieces == 4 + 4 + 4 + 4 + 1
    assert found.num_whole == 2 * 5 - 2 + 1
    assert found.num_unknown == 2
    assert found.unknown_words == (("dog", 2),)
    assert found.num_too_long == 4
    assert found.num_cut == 4
    assert found.num_letters == 3 * 7 + 9 + 3
    assert found.num_capitals == 3 + 3
    assert found.num_repeated == 2
    assert found.repeated_lines == (("Cats sat.", 3),)


def test_no_text_is_no_error(tokenizer):
    found = text_statistics.measure([], tokenizer, max_pieces=3)
    assert found.num_documents == found.num_words == found.num_too_long == 0
    assert found.pieces_per_sentence.count == 0


def test_only_so_many_lines_are_compared(tokenizer, monkeypatch):
    monkeypatch.setattr(text_statistics, "_MAX_LINES_COMPARED", 2)
    found = text_statistics.measure(
        [["a", "b", "c", "c", "a"]], tokenizer, max_pieces=3
    )
    assert found.repeated_lines == (("a", 2),)
