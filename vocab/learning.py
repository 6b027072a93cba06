"""Learns a WordPiece vocabulary for the tokenizer of the release.

The release came without the program that made its vocabularies. This one
counts the words that `BasicTokenizer` finds, cuts them into characters, and
joins the most frequent pair of neighbours, again and again, until the
vocabulary has the size asked for.

Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
Subword Units", Algorithm 1, with pieces spelt as `WordpieceTokenizer` looks
them up.
"""

import array
import collections
import dataclasses
import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping

from absl import logging

from files import lines
from vocab import characters, counting

_LOG_EVERY_PIECES = 5000
# Source: ids 100 to 103 of the released vocabularies.
_UNUSED_BEFORE_UNK = 99


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What to learn.

    Attributes:
        vocab_size: entries of the vocabulary, special ones included.
        do_lower_case: as for the tokenizer that will use the vocabulary.
        num_unused: `[unusedN]` entries, at least 99.
        min_character_count: characters seen less often get no entry, and
            words that have one will be [UNK].
        max_words: distinct words held at a time; beyond it the rarest are
            forgotten.
        num_workers: processes that count words; 0 for one per core.

    Raises:
        ValueError: a number is too small.
    """

    vocab_size: int = 30522  # Source: the released uncased vocabulary.
    do_lower_case: bool = True
    num_unused: int = _UNUSED_BEFORE_UNK
    min_character_count: int = 1
    max_words: int = 4_000_000
    num_workers: int = 0

    def __post_init__(self):
        for name, lowest in (
            ("num_unused", _UNUSED_BEFORE_UNK),  # So that [UNK] has id 100.
            ("min_character_count", 1),
            ("max_words", 1),
            ("num_workers", 0),
        ):
            if getattr(self, name) < lowest:
                raise ValueError(
                    f"{name} must be at least {lowest}; "
                    f"got {getattr(self, name)}."
                )


def learn_vocabulary(paths: Iterable[str], options: Options) -> list[str]:
    """Learns the entries of a vocabulary from text files.

    The result depends on the files, their order and the options, but not on
    `num_workers`.

    Args:
        paths: UTF-8 files.
        options: what to learn.

    Returns:
        The entries in the order of their ids: special tokens, characters,
        pieces that start a word, `##` characters, other `##` pieces; learnt
        pieces the most frequent first. As many as `options.vocab_size`, or
        fewer, with a warning, if the text has no more pieces.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a line is not UTF-8; the files have no words;
            `options.vocab_size` cannot hold the characters.
    """
    paths = list(paths)
    counts = counting.count_words(
        itertools.chain.from_iterable(map(lines.read_lines, paths)),
        do_lower_case=options.do_lower_case,
        max_words=options.max_words,
        num_workers=options.num_workers,
    )
    if not counts.words:
        raise ValueError(
            "The corpus must have words; found none in "
            f"{', '.join(paths) or 'no file'}."
        )
    special = special_tokens(options.num_unused)
    alphabet = _alphabet(counts, options.min_character_count)
    num_pieces = options.vocab_size - len(special) - len(alphabet)
    if num_pieces < 0:
        raise ValueError(
            f"vocab_size must be at least {len(special) + len(alphabet)}: "
            f"{len(special)} special tokens and {len(alphabet)} pieces of one "
            f"character; got {options.vocab_size}. Raise it, or raise "
            f"min_character_count ({options.min_character_count}) to leave "
            "rare characters out."
        )
    pieces = learn_pieces(_spelt_with(alphabet, counts.words), num_pieces)
    vocabulary = special + _ordered(alphabet, pieces)
    if len(vocabulary) < options.vocab_size:
        logging.warning(
            "The text has only %d entries of the %d asked for: every word is "
            "an entry of its own. Learn from more text, or use vocab_size = "
            "%d, in the configuration of the model too.",
            len(vocabulary),
            options.vocab_size,
            len(vocabulary),
        )
    return vocabulary


def special_tokens(num_unused: int) -> list[str]:
    """Lists the special tokens by id: [PAD] 0, [UNK] 100 to [MASK] 103."""
    unused = [f"[unused{number}]" for number in range(num_unused)]
    return [
        "[PAD]",
        *unused[:_UNUSED_BEFORE_UNK],
        *("[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *unused[_UNUSED_BEFORE_UNK:],
    ]


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


def _alphabet(counts: counting.WordCounts, min_count: int) -> set[str]:
    """Every frequent character, as the start of a word and within one."""
    frequent = [
        c for c, count in counts.characters.items() if count >= min_count
    ]
    within = [f"##{char}" for char in frequent if not _stands_alone(char)]
    return {*frequent, *within}


def _stands_alone(char: str) -> bool:
    return characters.is_punctuation(char) or characters.is_cjk_ideograph(char)


def _spelt_with(
    alphabet: Collection[str], words: Mapping[str, int]
) -> dict[str, int]:
    known = {
        word: count
        for word, count in words.items()
        if all(char in alphabet for char in word)
    }
    num_unknown = sum(words.values()) - sum(known.values())
    if num_unknown:
        logging.warning(
            "%d of %d words have a character without an entry",
            num_unknown,
            sum(words.values()),
        )
    return known


def _ordered(alphabet: Iterable[str], pieces: Iterable[str]) -> list[str]:
    by_start = {False: [], True: []}
    for piece in pieces:
        by_start[piece.startswith("##")].append(piece)
    return [
        *sorted(piece for piece in alphabet if len(piece) == 1),
        *by_start[False],
        *sorted(piece for piece in alphabet if len(piece) > 1),
        *by_start[True],
    ]


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
