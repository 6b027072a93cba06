"""Joined pairs: worked by hand, and against the rule without bookkeeping."""

import collections
import itertools

import hypothesis
from hypothesis import strategies as st

from vocab import byte_pairs


def test_pieces_worked_by_hand():
    # First counts: e|##r 6, ##e|##r and ##w|##e 5, l|##o and ##o|##w 4, then
    # n|##e and ##e|##w 1; "#" comes before letters.
    words = {"er": 6, "lower": 4, "newer": 1}
    pieces = ["er", "##er", "##wer", "##ower", "lower", "##ewer", "newer"]
    for num_pieces in range(8):
        learnt = byte_pairs.learn_pieces(words, num_pieces)
        assert learnt == pieces[:num_pieces]
    assert byte_pairs.learn_pieces(words, 9) == pieces  # There are no more.


def test_no_pieces_without_words_or_neighbours():
    assert byte_pairs.learn_pieces({}, 5) == []
    assert byte_pairs.learn_pieces({"a": 3, "b": 1}, 5) == []


def _slowly_learnt(words, num_pieces):
    """The same rule without bookkeeping: counts every pair anew."""
    cut = {word: [word[0], *(f"##{c}" for c in word[1:])] for word in words}
    learnt = []
    while len(learnt) < num_pieces:
        pairs = collections.Counter()
        for word, pieces in cut.items():
            for pair in itertools.pairwise(pieces):
                pairs[pair] += words[word]
        if not pairs:
            break
        left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        for word, pieces in cut.items():
            rest, cut[word] = pieces, []
            while rest:
                found = rest[:2] == [left, right]
                joined = left + right[2:] if found else rest[0]
                cut[word] += [joined]
                rest = rest[2 if found else 1 :]
        if left + right[2:] not in learnt:
            learnt.append(left + right[2:])
    return learnt


@hypothesis.given(
    words=st.dictionaries(
        st.text("abc", min_size=1, max_size=9), st.integers(1, 5), max_size=9
    ),
    num_pieces=st.integers(0, 40),
)
def test_bookkeeping_changes_no_piece(words, num_pieces):
    learnt = byte_pairs.learn_pieces(words, num_pieces)
    assert learnt == _slowly_learnt(words, num_pieces)
