import itertools
import logging

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from bert.tasks.tagging import conll, windows

_VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh", "##x", "##y"]


class _Tokenizer:
    """Cuts a word into its characters; "-" has no piece."""

    def tokenize(self, text):
        return [f"##{c}" if i else c for i, c in enumerate(text) if c != "-"]

    def convert_tokens_to_ids(self, tokens):
        return [_VOCAB.index(token) for token in tokens]


def _sentences(*documents):
    return [
        conll.Sentence(
            words=tuple(text.split()),
            tags=None,
            lines=tuple(range(len(text.split()))),
            document=number,
        )
        for number, document in enumerate(documents)
        for text in document
    ]


def _windows(documents, max_seq_length):
    sentences = _sentences(*documents)
    # The label of a word is its place in the file.
    places = itertools.count()
    label_ids = [[next(places) for _ in s.words] for s in sentences]
    return list(
        windows.make_windows(sentences, label_ids, _Tokenizer(), max_seq_length)
    )


def _read(window):
    """Shows a window: its pieces, those of labeled words in upper case."""
    pieces = [_VOCAB[number] for number in window.input_ids]
    assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")
    for position in window.positions:
        pieces[position] = pieces[position].upper()
    return " ".join(pieces[1:-1])


def _shown(windows):
    return [[_read(window) for window in each] for each in windows]


@pytest.mark.parametrize(
    ("documents", "length", "shown"),
    [
        # The whole document stands around each sentence where it fits.
        (
            [["a b", "c dx"]],
            9,
            [["A B c d ##x"], ["a b C D ##x"]],
        ),
        # Both sides have alike, and the longer what the shorter leaves.
        (
            [["a b c", "d", "e f g"]],
            2 + 5,
            [["A B C d e"], ["b c D e f"], ["c d E F G"]],
        ),
        # Other documents are never seen.
        (
            [["a", "b"], ["c"], ["d", "e"]],
            10,
            [["A b"], ["a B"], ["C"], ["D e"], ["d E"]],
        ),
        # Long sentences have several windows with words on both sides.
        (
            [["a b c d e f g"]],
            2 + 4,
            [["A B c d", "b C D e", "d E F g", "d e f G"]],
        ),
    ],
)
def test_windows_by_hand(documents, length, shown):
    assert _shown(_windows(documents, length)) == shown


def test_words_around_are_whole():
    # Three pieces are left: one to the left, where `bx` does not fit, and so
    # all to the right, where the second of two words does not fit.
    document = ["bx", "c", "dx ex"]
    assert _shown(_windows([document], 2 + 4))[1] == ["C d ##x"]
    assert _shown(_windows([document], 2 + 5))[1] == ["b ##x C d ##x"]


def test_words_too_long_and_without_a_piece_are_warned_of(caplog):
    with caplog.at_level(logging.WARNING):
        shown = _shown(_windows([["a bxyxyx c"], ["a - b"], ["bxyxyx"]], 2 + 3))
    long = "B ##x ##y"
    assert shown == [["A", long, "C"], ["A [UNK] B"], [long]]
    assert "2 of 7 words have more than 3 word pieces" in caplog.text
    assert "by 6 pieces. See --max_seq_length" in caplog.text
    assert "1 word(s) have no word piece" in caplog.text


def test_record_by_hand():
    ((window,),) = _windows([["ax b"]], 7)
    assert window.record(7) == {
        "input_ids": [2, 4, 12, 5, 3, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0] * 7,
        "label_ids": [0, 0, 0, 1, 0, 0, 0],
        "label_mask": [0, 1, 0, 1, 0, 0, 0],
    }


_word = strategies.text("abx", min_size=1, max_size=5).map(
    lambda text: "a" + text.replace("a", "x").replace("b", "y")
)
_sentence = strategies.lists(_word, min_size=1, max_size=9).map(" ".join)


@hypothesis.given(
    strategies.lists(
        strategies.lists(_sentence, min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    strategies.integers(3, 20),
)
def test_each_word_is_labeled_once_in_order_and_windows_fit(documents, length):
    parts = _windows(documents, length)
    flat = [window for each in parts for window in each]
    assert all(len(window.input_ids) <= length for window in flat)
    labels = [label for window in flat for label in window.label_ids]
    words = [w for d in documents for s in d for w in s.split()]
    assert labels == list(range(len(words)))
    for window in flat:
        assert len(window.positions) == len(window.label_ids) > 0
        for position in window.positions:
            assert _VOCAB[window.input_ids[position]] == "a"


@hypothesis.given(
    strategies.lists(_sentence, min_size=2, max_size=5),
    strategies.integers(8, 30),
)
def test_no_neighbor_is_left_out_that_would_fit(document, length):
    parts = _windows([document], length)
    sizes = [len(word) for sentence in document for word in sentence.split()]
    whole = list(itertools.accumulate(sizes, initial=0))
    for each in parts:
        for window in each:
            held = len(window.input_ids) - 2
            first = window.label_ids[0]
            start = whole[first] - (window.positions[0] - 1)
            left = whole.index(start)
            right = whole.index(start + held)
            for neighbor in sizes[left - 1 : left] if left else []:
                assert held + neighbor > length - 2
            for neighbor in sizes[right : right + 1]:
                assert held + neighbor > length - 2


def test_labels_are_split_into_sentences():
    sentences = _sentences(["a b c", "d"])
    tags = windows.split_labels(
        np.array([[9, 1, 9, 2], [0, 9, 9, 9], [9, 1, 9, 9]]),
        # What was cut from a row is marked by large negative numbers.
        np.array([[0, 1, 0, 1], [1, 0, 0, -1000], [0, 1, 0, -1000]]),
        sentences,
        ("O", "B-A", "I-A"),
    )
    assert tags == [("B-A", "I-A", "O"), ("B-A",)]
