"""Puts words of a field into the free entries of a vocabulary.

The released vocabularies hold `[unused0]` to `[unused993]` for that: an entry
takes a word and keeps its id, so that a model's sizes and weights still fit.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence

from vocab import tokenization

_FREE = re.compile(r"\[unused\d+\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewWord:
    """A word that the vocabulary cuts into pieces.

    Attributes:
        word: as `BasicTokenizer` gives it.
        count: how often it comes in the text.
        pieces: what it is cut into so far; `[UNK]` if it cannot be.
    """

    word: str
    count: int
    pieces: tuple[str, ...]

    @property
    def num_saved(self) -> int:
        """The pieces that the text has fewer with the word as an entry.

        A word that is unknown so far counts as if it were cut into letters,
        since all of it is lost.
        """
        if self.pieces == ("[UNK]",):
            return self.count * len(self.word)
        return self.count * (len(self.pieces) - 1)


def free_places(entries: Sequence[str]) -> list[int]:
    """Lists the ids of the entries that are `[unusedN]`."""
    return [i for i, entry in enumerate(entries) if _FREE.fullmatch(entry)]


def choose_words(
    counts: Mapping[str, int],
    tokenizer: tokenization.WordpieceTokenizer,
    *,
    num_words: int,
    min_count: int,
) -> list[NewWord]:
    """Chooses the words that save a text the most pieces.

    Words without a letter, such as numbers, are passed over.

    Args:
        counts: of words, as `BasicTokenizer` cuts them.
        tokenizer: of the vocabulary as it is.
        num_words: how many at most.
        min_count: how often a word must come.

    Returns:
        The word that saves most first; of equals the first by the alphabet.
    """
    candidates = [
        new_word(word, count, tokenizer)
        for word, count in counts.items()
        if count >= min_count
        and word not in tokenizer.vocab
        and any(map(str.isalpha, word))
        and len(word) <= tokenizer.max_input_chars_per_word
    ]
    candidates.sort(key=lambda found: (-found.num_saved, found.word))
    return candidates[:num_words]


def new_word(
    word: str, count: int, tokenizer: tokenization.WordpieceTokenizer
) -> NewWord:
    """Describes a word that is not in the vocabulary."""
    return NewWord(
        word=word, count=count, pieces=tuple(tokenizer.tokenize(word))
    )


def check_words(
    words: Iterable[str], tokenizer: tokenization.FullTokenizer
) -> list[str]:
    """Checks words that somebody chose.

    Args:
        words: one each; white space around them is dropped, empty ones are
            passed over.
        tokenizer: of the vocabulary as it is.

    Returns:
        The words that are not in the vocabulary yet, each once, in order.

    Raises:
        ValueError: the tokenizer cuts one before it looks words up, so that
            its entry would never be met.
    """
    checked = {}
    for text in words:
        word = text.strip()
        if not word:
            continue
        parts = tokenizer.basic_tokenizer.tokenize(word)
        if parts != [word]:
            raise ValueError(
                f"{word!r} must be one word as the tokenizer sees it, in its "
                f"casing and without punctuation; it becomes {parts}. Give "
                "those instead."
            )
        if word not in tokenizer.vocab:
            checked[word] = None
    return list(checked)


def fill(entries: Sequence[str], words: Sequence[str]) -> list[str]:
    """Puts words into the free entries, from the first on.

    Args:
        entries: of the vocabulary, in the order of their ids.
        words: not among the entries.

    Returns:
        As many entries; all others have their ids as before.

    Raises:
        ValueError: there are more words than free entries.
    """
    places = free_places(entries)
    if len(words) > len(places):
        raise ValueError(
            f"The vocabulary must have a free entry, [unusedN], for each of "
            f"{len(words)} words; it has {len(places)}. Give fewer words, or "
            "learn a vocabulary (python -m tools.learn_vocab)."
        )
    filled = list(entries)
    for place, word in zip(places, words, strict=False):
        filled[place] = word
    return filled
