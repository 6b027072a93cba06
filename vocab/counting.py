"""Counts the words of a corpus of any size, in bounded memory."""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator

from absl import logging

from files import processes, progress
from vocab import tokenization

_CHUNK_CHARS = 1 << 22  # A fraction of a second of work for a process.
_MAX_WORD_CHARS = 200  # Source: WordpieceTokenizer takes longer ones for [UNK].


@dataclasses.dataclass(kw_only=True)
class WordCounts:
    """The words of a text as `BasicTokenizer` cuts them, and their characters.

    Attributes:
        words: word -> occurrences; without words over 200 code points, which
            no vocabulary can cut, and without forgotten ones.
        characters: character -> occurrences, forgotten words included.
        num_chars: code points read, line ends not counted.
        num_too_long: occurrences of words over 200 code points.
        num_forgotten: distinct words dropped as the rarest.
    """

    words: collections.Counter = dataclasses.field(
        default_factory=collections.Counter
    )
    characters: collections.Counter = dataclasses.field(
        default_factory=collections.Counter
    )
    num_chars: int = 0
    num_too_long: int = 0
    num_forgotten: int = 0

    def add(self, other: "WordCounts") -> None:
        """Adds the counts of another text."""
        self.words.update(other.words)
        self.characters.update(other.characters)
        self.num_chars += other.num_chars
        self.num_too_long += other.num_too_long
        self.num_forgotten += other.num_forgotten

    def forget_rarest(self, max_words: int) -> None:
        """Drops whole levels of rarity until half of `max_words` are left.

        All words of one count go or stay together, so that the order in
        which they came does not matter. Words no more than `max_words` stay
        as they are.
        """
        if len(self.words) <= max_words:
            return
        words_by_count = collections.Counter(self.words.values())
        num_left = len(self.words)
        for rarest in sorted(words_by_count):
            if num_left <= max_words // 2:
                break
            num_left -= words_by_count[rarest]
            lowest_kept = rarest + 1
        self.num_forgotten += len(self.words) - num_left
        self.words = collections.Counter(
            {w: n for w, n in self.words.items() if n >= lowest_kept}
        )


def count_words(
    lines: Iterable[str],
    *,
    do_lower_case: bool,
    max_words: int,
    num_workers: int,
) -> WordCounts:
    """Counts the words of lines of text, logging progress.

    The counts do not depend on `num_workers`.

    Args:
        lines: read as they are needed, a few megabytes at a time.
        do_lower_case: as for the tokenizer that will use the counts.
        max_words: distinct words held; beyond it the rarest are forgotten
            and a warning says how many.
        num_workers: processes; 0 for one per core.
    """
    count = functools.partial(_count_chunk, do_lower_case=do_lower_case)
    total = WordCounts()
    report = progress.Progress()
    for counts in processes.map_in_order(count, _chunks(lines), num_workers):
        total.add(counts)
        total.forget_rarest(max_words)
        report(
            "characters",
            total.num_chars,
            detail=f"{len(total.words):,} distinct words",
        )
    logging.info(
        "read %.1f M characters: %d words, %d distinct",
        total.num_chars / 1e6,
        total.words.total(),
        len(total.words),
    )
    if total.num_too_long:
        logging.warning(
            "left out %d words over %d characters, which the tokenizer takes "
            "for unknown",
            total.num_too_long,
            _MAX_WORD_CHARS,
        )
    if total.num_forgotten:
        logging.warning(
            "forgot the %d rarest words to hold no more than max_words = %d",
            total.num_forgotten,
            max_words,
        )
    return total


def _count_chunk(lines: list[str], *, do_lower_case: bool) -> WordCounts:
    tokenize = tokenization.BasicTokenizer(do_lower_case).tokenize
    words = collections.Counter()
    for line in lines:
        words.update(tokenize(line))
    too_long = [word for word in words if len(word) > _MAX_WORD_CHARS]
    num_too_long = sum(words.pop(word) for word in too_long)
    letters = collections.Counter()
    for word, count in words.items():
        for char in word:
            letters[char] += count
    return WordCounts(
        words=words,
        characters=letters,
        num_chars=sum(map(len, lines)),
        num_too_long=num_too_long,
    )


def _chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Groups lines; the groups depend on nothing but the lines."""
    chunk, num_chars = [], 0
    for line in lines:
        chunk.append(line)
        num_chars += len(line) + 1
        if num_chars >= _CHUNK_CHARS:
            yield chunk
            chunk, num_chars = [], 0
    if chunk:
        yield chunk
