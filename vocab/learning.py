"""Vocabulary learning: word counts, byte-pair encoding, entry selection.

The original does not include the program that created its vocabularies. This
module counts the words of `BasicTokenizer` and learns more pieces than
requested by byte-pair encoding. `WordpieceTokenizer` takes the longest piece
and seldom uses some of them, so the least used pieces are dropped.
"""

import array
import collections
import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from absl import logging

from bert.commands import flags
from bert.files import lines, processes, progress
from vocab import tokenization

_VOCABULARY = flags.Heading("Vocabulary")
# Measured on 53 million English words with 30,522 entries: 0.5 to 1 % fewer
# pieces per word, held-out text included, than without surplus pieces.
_SPARE_SHARE = 0.15
# Source: ids 100 to 103 of the released vocabularies.
_UNUSED_BEFORE_UNK = 99
_CHUNK_CHARS = 1 << 22  # A process counts so many in under a second.
_MAX_WORDS = 4_000_000  # Distinct words in memory, about 1 kB each.
_MAX_WORD_CHARS = 200  # Source: WordpieceTokenizer maps longer ones to [UNK].


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of vocabulary learning."""

    do_lower_case: bool = flags.Group.TEXT.flag(
        True, "Lower-case and strip accents, as the model's tokenizer will."
    )
    strip_accents: bool | None = flags.Group.TEXT.optional(
        "Strip accents; as --do_lower_case if not given."
    )
    vocab_size: int = _VOCABULARY.positive(
        30522,  # Source: the released uncased vocabulary.
        "Entries, special tokens included: vocab_size of the model.",
    )
    num_unused: int = _VOCABULARY.flag(
        _UNUSED_BEFORE_UNK,
        "[unusedN] entries, which can be replaced by other words later. With "
        "99, [UNK] to [MASK] have the released ids 100 to 103; more follow.",
        lower_bound=_UNUSED_BEFORE_UNK,
    )
    min_character_count: int = _VOCABULARY.positive(
        1, "Omit rarer characters; words with one become [UNK]."
    )
    num_workers: int = flags.Group.SPEED.non_negative(
        0,
        "Processes that count words; 0 for one per core. The vocabulary is "
        "the same.",
    )


def learn_vocabulary(text_files: Iterable[str], options: Options) -> list[str]:
    """Learns the entries of a vocabulary from text files.

    The result depends on the files, their order and the options, but not on
    `num_workers`.

    Args:
        text_files: UTF-8 files.
        options: options of vocabulary learning.

    Returns:
        The entries in the order of their ids: special tokens, characters,
        pieces that start a word, `##` characters, other `##` pieces. Learned
        pieces are in order of frequency. There are `options.vocab_size`
        entries, or fewer, with a warning, if the text has no more pieces.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a line is not UTF-8; `options.vocab_size` cannot hold the
            characters.
    """
    texts = itertools.chain.from_iterable(map(lines.read_lines, text_files))
    counts = count_words(texts, options)
    special = special_tokens(options.num_unused)
    alphabet = _alphabet(counts, options.min_character_count)
    least = len(special) + len(alphabet)
    if options.vocab_size < least:
        raise ValueError(
            f"vocab_size must be at least {least}: {len(special)} special "
            f"tokens and {len(alphabet)} pieces of one character; got "
            f"{options.vocab_size}. Raise it, or raise min_character_count "
            f"({options.min_character_count}) to leave rare characters out."
        )
    num_pieces = options.vocab_size - least
    words = {
        word: count
        for word, count in counts.words.items()
        if all(char in alphabet for char in word)
    }
    num_candidates = math.ceil(num_pieces * (1 + _SPARE_SHARE))
    pieces = keep_most_used(
        learn_pieces(words, num_candidates), alphabet, words, num_pieces
    )
    vocabulary = special + _ordered(alphabet, pieces)
    if len(vocabulary) < options.vocab_size:
        logging.warning(
            "The text has only %d entries of the %d requested: every word is "
            "an entry. Learn from more text, or use vocab_size = %d, in the "
            "configuration of the model too.",
            *(len(vocabulary), options.vocab_size, len(vocabulary)),
        )
    return vocabulary


# ----------------------------------------------------------- Counting words


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordCounts:
    """Counts of the words of `BasicTokenizer`, and of their characters.

    Attributes:
        words: word -> occurrences, except dropped words and those over 200 code
            points, which are always unknown.
        characters: character -> occurrences, including dropped words.
    """

    words: collections.Counter[str]
    characters: collections.Counter[str]


def count_words(texts: Iterable[str], options: Options) -> WordCounts:
    """Counts the words of lines of text, logging progress.

    Args:
        texts: read on demand, a few megabytes at a time.
        options: the casing and `num_workers`, which does not affect the
            counts. Beyond four million words the rarest are dropped with a
            warning.
    """
    count = functools.partial(
        _count_chunk,
        tokenizer=tokenization.BasicTokenizer(
            options.do_lower_case, options.strip_accents
        ),
    )
    words: collections.Counter[str] = collections.Counter()
    characters: collections.Counter[str] = collections.Counter()
    report = progress.Progress()
    chunks = processes.batches(texts, _CHUNK_CHARS, lambda text: len(text) + 1)
    for counts in processes.map_in_order(count, chunks, options.num_workers):
        words.update(counts.words)
        characters.update(counts.characters)
        if len(words) > _MAX_WORDS:
            words = _without_rarest(words)
        report("distinct words", len(words))
    return WordCounts(words=words, characters=characters)


def _without_rarest(words: collections.Counter[str]) -> collections.Counter:
    """Drops the rarest words until at most half of `_MAX_WORDS` are left.

    All words of equal count are dropped or kept together, so the result does
    not depend on their order. The most frequent words are kept.
    """
    words_by_count = collections.Counter(words.values())
    num_left, most_forgotten = len(words), 0
    for rarest in sorted(words_by_count)[:-1]:
        if num_left <= _MAX_WORDS // 2:
            break
        num_left -= words_by_count[rarest]
        most_forgotten = rarest
    logging.warning(
        "dropped the %d rarest words to keep at most %d",
        len(words) - num_left,
        _MAX_WORDS,
    )
    return collections.Counter(
        {word: n for word, n in words.items() if n > most_forgotten}
    )


def _count_chunk(
    texts: list[str], *, tokenizer: tokenization.BasicTokenizer
) -> WordCounts:
    tokenize = tokenizer.tokenize
    words: collections.Counter[str] = collections.Counter()
    for text in texts:
        words.update(
            word for word in tokenize(text) if len(word) <= _MAX_WORD_CHARS
        )
    letters: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for char in word:
            letters[char] += count
    return WordCounts(words=words, characters=letters)


# ------------------------------------------------------ Byte-pair encoding

# Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with
# Subword Units", Algorithm 1: words are split into characters, and the most
# frequent pair of neighbors is merged repeatedly. Pieces are spelled as in
# `WordpieceTokenizer`.


def learn_pieces(words: Mapping[str, int], num_pieces: int) -> list[str]:
    """Learns pieces of more than one character from counted words.

    Args:
        words: word -> occurrences.
        num_pieces: number of pieces to learn.

    Returns:
        Distinct pieces in the order learned; fewer than `num_pieces` only if
        every word is one piece. The spelling breaks ties.
    """
    merger, report = _Merger(words), progress.Progress()
    # An ordered set, since two pairs may spell the same piece.
    pieces: dict[str, None] = {}
    while len(pieces) < num_pieces:
        piece = merger.join_most_frequent_pair()
        if piece is None:
            break
        pieces[piece] = None
        report("pieces", len(pieces), num_pieces)
    return list(pieces)


_Pair = tuple[int, int]  # Ids of two neighboring pieces.


class _Merger:
    """Words as pieces, with counts of neighboring pieces.

    A piece is identified by its index in `_spellings`. `_queue` holds every
    pair with an upper bound of its count. A pair popped with a stale bound is
    pushed again with its current count.
    """

    def __init__(self, words: Mapping[str, int]):
        self._spellings: list[str] = []
        self._number_of: dict[str, int] = {}
        self._words: list[array.array] = []  # Ids of pieces.
        self._occurrences: list[int] = []
        self._pair_counts: collections.Counter[_Pair] = collections.Counter()
        # May contain duplicates and outdated words.
        self._words_of_pair: dict[_Pair, array.array] = collections.defaultdict(
            lambda: array.array("I")
        )
        self._queue: list[tuple[int, tuple[str, ...], _Pair]] = []
        for word in words:
            pieces = [self._number(word[0])]
            pieces += [self._number(f"##{char}") for char in word[1:]]
            for pair in itertools.pairwise(pieces):
                self._pair_counts[pair] += words[word]
                self._words_of_pair[pair].append(len(self._words))
            self._words.append(array.array("I", pieces))
            self._occurrences.append(words[word])
        for pair in self._pair_counts:
            self._push(pair)

    def join_most_frequent_pair(self) -> str | None:
        """Merges the most frequent pair; returns the piece, None at the end."""
        pair = self._pop()
        if pair is None:
            return None
        left, right = (self._spellings[number] for number in pair)
        piece = left + right.removeprefix("##")
        joined = self._number(piece)
        changes: collections.Counter[_Pair] = collections.Counter()
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
            self._pair_counts[changed] += change
            if self._pair_counts[changed] == 0:
                del self._pair_counts[changed]
            elif change > 0:
                self._push(changed)
        return piece

    def _number(self, piece: str) -> int:
        if piece not in self._number_of:
            self._number_of[piece] = len(self._spellings)
            self._spellings.append(piece)
        return self._number_of[piece]

    def _push(self, pair: _Pair) -> None:
        spelling = tuple(self._spellings[number] for number in pair)
        entry = (-self._pair_counts[pair], spelling, pair)
        heapq.heappush(self._queue, entry)

    def _pop(self) -> _Pair | None:
        while self._queue:
            negative_count, _, pair = heapq.heappop(self._queue)
            count = self._pair_counts.get(pair, 0)
            if count == -negative_count:
                return pair
            if 0 < count < -negative_count:
                self._push(pair)
        return None


def _join(pieces: array.array, pair: _Pair, joined: int) -> array.array:
    """Replaces a pair of pieces by the merged piece, from the left."""
    result = array.array("I")
    for piece in pieces:
        if result and (result[-1], piece) == pair:
            result[-1] = joined
        else:
            result.append(piece)
    return result


# ---------------------------------------------- Entries of the vocabulary


def special_tokens(num_unused: int) -> list[str]:
    """Lists the special tokens by id: [PAD] 0, [UNK] 100 to [MASK] 103."""
    unused = [f"[unused{number}]" for number in range(num_unused)]
    return [
        "[PAD]",
        *unused[:_UNUSED_BEFORE_UNK],
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *unused[_UNUSED_BEFORE_UNK:],
    ]


def keep_most_used(
    pieces: Iterable[str],
    alphabet: Collection[str],
    words: Mapping[str, int],
    num_pieces: int,
) -> list[str]:
    """Drops the pieces that tokenization uses least.

    Args:
        pieces: candidates, the most useful first in case of equal use.
        alphabet: pieces of one character, which are always kept.
        words: word -> occurrences; spelled with `alphabet`.
        num_pieces: number of pieces to keep.

    Returns:
        The kept pieces in their original order.
    """
    pieces = list(pieces)
    # There are several rounds, since dropping pieces increases the use of
    # others.
    for share in (0.5, 0.5, 1):
        num_dropped = math.ceil(share * max(0, len(pieces) - num_pieces))
        if not num_dropped:
            break
        tokenizer = tokenization.WordpieceTokenizer({*alphabet, *pieces})
        uses: collections.Counter[str] = collections.Counter()
        for word, count in words.items():
            for piece in tokenizer.tokenize(word):
                uses[piece] += count
        ranked = sorted(pieces, key=uses.__getitem__, reverse=True)
        dropped = set(ranked[-num_dropped:])
        pieces = [piece for piece in pieces if piece not in dropped]
    return pieces


def _alphabet(counts: WordCounts, min_count: int) -> set[str]:
    frequent = [
        c for c, count in counts.characters.items() if count >= min_count
    ]
    within = [
        f"##{char}" for char in frequent if not tokenization.stands_alone(char)
    ]
    return {*frequent, *within}


def _ordered(alphabet: Iterable[str], pieces: Sequence[str]) -> list[str]:
    return [
        *sorted(piece for piece in alphabet if len(piece) == 1),
        *(piece for piece in pieces if not piece.startswith("##")),
        *sorted(piece for piece in alphabet if len(piece) > 1),
        *(piece for piece in pieces if piece.startswith("##")),
    ]
