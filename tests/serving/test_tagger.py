"""Windows of sentences against `tasks.tagging.ner`, one sentence at a time."""

import random

import pytest
import tensorflow as tf

from serving import tagger
from tasks.tagging import conll, ner


class _Pieces:
    """A word is the number of its pieces, all of them the word itself."""

    def tokenize(self, text):
        return [text] * int(text.split("/")[1])

    def convert_tokens_to_ids(self, tokens):
        special = {"[CLS]": -1, "[SEP]": -2}
        return [special.get(t) or int(t.split("/")[0]) for t in tokens]


def _words(rng, lengths, most_pieces):
    numbers = iter(range(1, 10_000))
    return [
        [f"{next(numbers)}/{rng.randint(1, most_pieces)}" for _ in range(n)]
        for n in lengths
    ]


@pytest.mark.parametrize("context", ner.CONTEXTS)
@pytest.mark.parametrize("seed", range(12))
def test_windows_are_those_of_one_sentence_after_the_other(seed, context):
    rng = random.Random(seed)
    lengths = [rng.choice([1, 2, 5, 19]) for _ in range(4)]
    sentences = _words(rng, lengths, most_pieces=rng.choice([1, 4, 11]))
    options = ner.WindowOptions(
        max_seq_length=rng.choice([3, 9, 14, 40]), context=context
    )
    expected = ner.make_windows(
        [
            conll.Sentence(words=tuple(words), tags=None, lines=(), document=0)
            for words in sentences
        ],
        [[0] * n for n in lengths],
        _Pieces(),
        options,
    )
    windows = [window for of_sentence in expected for window in of_sentence]
    flat = [word for words in sentences for word in words]
    ids = [
        _Pieces().convert_tokens_to_ids(
            _Pieces().tokenize(word)[: options.room]
        )
        for word in flat
    ]
    got = tagger.cut_windows(
        tf.ragged.constant(ids, tf.int32, row_splits_dtype=tf.int64),
        tf.constant(lengths, tf.int64),
        options,
    )
    assert got.tokens.to_list() == [list(w.input_ids[1:-1]) for w in windows]
    places = [
        (number, place)
        for number, window in enumerate(windows)
        for place in window.positions
    ]
    assert got.window_of_word.numpy().tolist() == [w for w, _ in places]
    assert got.place_of_word.numpy().tolist() == [p for _, p in places]


@pytest.mark.parametrize("lengths", [[], [0], [0, 2, 0]])
def test_sentences_without_words_have_no_window(lengths):
    count = sum(lengths)
    got = tagger.cut_windows(
        tf.RaggedTensor.from_row_lengths(
            tf.ones([count], tf.int32), tf.ones([count], tf.int64)
        ),
        tf.constant(lengths, tf.int64, [len(lengths)]),
        ner.WindowOptions(max_seq_length=9),
    )
    assert got.tokens.nrows() == min(count, 1)
    assert got.place_of_word.shape == [count]
