import dataclasses

import pytest

from corpus import text_statistics
from tasks.masked_lm import record_contents
from tests import toy_vocabulary

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
    return toy_vocabulary.tokenizer(tmp_path, _WORDS)


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


def test_lines_without_tokens_are_no_sentences(tokenizer):
    documents = [["\u200b"], ["Cats sat.", "\x01", "cat"], ["\ufeff"]]
    found = text_statistics.measure(documents, tokenizer, max_pieces=3)
    assert found.num_documents == 1
    assert found.num_single == 0
    assert found.num_sentences == found.pieces_per_sentence.count == 2


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


# A sound text: 10 documents, 100 lines of 30 word pieces, 2,000 letters.
_SOUND = text_statistics.TextStatistics(
    num_documents=10,
    num_sentences=100,
    num_words=1000,
    num_pieces=1200,
    num_whole=900,
    num_unknown=10,
    num_letters=2000,
    num_capitals=100,
    num_too_long=0,
    num_cut=0,
    num_repeated=10,
    num_single=5,
    sentences_per_document=record_contents.summarize([10]),
    pieces_per_sentence=record_contents.summarize([64]),
    unknown_words=(),
    repeated_lines=(),
)


def _warnings(do_lower_case=False, **changes):
    return text_statistics.warnings(
        dataclasses.replace(_SOUND, **changes),
        max_seq_length=128,
        do_lower_case=do_lower_case,
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_documents": 1, "num_single": 0}, "one document"),
        ({"num_single": 6}, "6 of 10 documents"),
        (
            {"pieces_per_sentence": record_contents.summarize([65])},
            "are they paragraphs",
        ),
        ({"num_unknown": 11}, "1.1% of the words"),
        ({"num_pieces": 2010}, "2.0 pieces on average"),
        ({"num_capitals": 1}, "lower-cased already"),
        ({"num_capitals": 1900}, "95% of the letters are capitals"),
        ({"num_repeated": 11}, "11% of the lines"),
    ],
)
def test_problems_of_a_text_are_reported_once(changes, words):
    (warning,) = _warnings(**changes)
    assert words in warning


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_words": 0, "num_pieces": 0, "num_unknown": 0},
        {"num_capitals": 0, "num_letters": 10},
        {"num_capitals": 0, "do_lower_case": True},
    ],
)
def test_ordinary_text_is_not_reported(changes):
    assert _warnings(**changes) == []
