"""Byte-pair encoding, with pieces spelt as `WordpieceTokenizer` has them.

Words are cut into characters; the most frequent pair of neighbours is joined
in all of them, again and again.

Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
Subword Units", Algorithm 1.
"""

import array
import collections
import heapq
import itertools
from collections.abc import Mapping

from absl import logging

_LOG_EVERY_PIECES = 5000


def learn_pieces(words: Mapping[str, int], num_pieces: int) -> list[str]:
    """Learns pieces of more than one character from counted words.

    Args:
        words: word -> occurrences.
        num_pieces: how many to learn.

    Returns:
        Distinct pieces in the order learnt; fewer than `num_pieces` only if
        every word is one piece. Equal counts are decided by the spelling.
    """
    merger = _Merger(words)
    pieces = {}  # Used for its order; two pairs may spell the same piece.
    while len(pieces) < num_pieces:
        piece = merger.join_most_frequent_pair()
        if piece is None:
            break
        pieces[piece] = None
        if len(pieces) % _LOG_EVERY_PIECES == 0:
            logging.info("learnt %d of %d pieces", len(pieces), num_pieces)
    return list(pieces)


class _Merger:
    """Words cut into pieces, and the counts of neighbouring pieces.

    A piece is known by its number in `_spellings`. `_queue` holds every pair
    with a count that is at least the true one; a pair that comes out with a
    count gone stale goes back in with the true one.
    """

    def __init__(self, words: Mapping[str, int]):
        self._spellings = []
        self._number_of = {}
        self._words = []  # Numbers of pieces.
        self._occurrences = []
        self._pair_counts = collections.Counter()
        self._words_of_pair = collections.defaultdict(
            lambda: array.array("I")  # May name a word twice, or in vain.
        )
        self._queue = []
        for word in sorted(words):  # Sorted: one result for one text.
            self._add(word, words[word])
        for pair in self._pair_counts:
            self._push(pair)

    def join_most_frequent_pair(self) -> str | None:
        """Joins a pair in all words; returns the piece, or None at the end."""
        pair = self._pop()
        if pair is None:
            return None
        left, right = (self._spellings[number] for number in pair)
        piece = left + right.removeprefix("##")
        joined = self._number(piece)
        changes = collections.Counter()
        for index in sorted(set(self._words_of_pair.pop(pair))):
            before = self._words[index]
            after = _join(before, pair, joined)
            if len(after) == len(before):
                continue
            self._words[index] = after
            count = self._occurrences[index]
            for old in itertools.pairwise(before):
                changes[old] -= count
            for new in itertools.pairwise(after):
                changes[new] += count
                if joined in new:
                    self._words_of_pair[new].append(index)
        for changed, change in changes.items():
            self._change(changed, change)
        return piece

    def _add(self, word: str, count: int) -> None:
        pieces = [self._number(word[0])]
        pieces += [self._number(f"##{char}") for char in word[1:]]
        for pair in itertools.pairwise(pieces):
            self._pair_counts[pair] += count
            self._words_of_pair[pair].append(len(self._words))
        self._words.append(array.array("I", pieces))
        self._occurrences.append(count)

    def _number(self, piece: str) -> int:
        if piece not in self._number_of:
            self._number_of[piece] = len(self._spellings)
            self._spellings.append(piece)
        return self._number_of[piece]

    def _change(self, pair: tuple[int, int], change: int) -> None:
        if not change:
            return
        self._pair_counts[pair] += change
        if self._pair_counts[pair] == 0:
            del self._pair_counts[pair]
        elif change > 0:
            self._push(pair)

    def _push(self, pair: tuple[int, int]) -> None:
        spelling = tuple(self._spellings[number] for number in pair)
        entry = (-self._pair_counts[pair], spelling, pair)
        heapq.heappush(self._queue, entry)

    def _pop(self) -> tuple[int, int] | None:
        while self._queue:
            negative_count, _, pair = heapq.heappop(self._queue)
            count = self._pair_counts.get(pair, 0)
            if count == -negative_count:
                return pair
            if 0 < count < -negative_count:
                self._push(pair)
        return None


def _join(
    pieces: array.array, pair: tuple[int, int], joined: int
) -> array.array:
    """Replaces a pair of pieces, from the left, by the joined piece."""
    result = array.array("I")
    index = 0
    while index < len(pieces):
        if (
            index + 1 < len(pieces)
            and pieces[index] == pair[0]
            and pieces[index + 1] == pair[1]
        ):
            result.append(joined)
            index += 2
        else:
            result.append(pieces[index])
            index += 1
    return result
