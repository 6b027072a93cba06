"""Tokenization of many words, and padding."""

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from files import processes
from vocab import tokenization

_WORDS_PER_CHUNK = 8192
# Starting a process takes 0.6 s, about as long as tokenizing this many words.
# Development files need one process; all of SQuAD has work for four.
_MIN_WORDS_PER_PROCESS = 60000
# Called with the name of a phase, the amount done and the total.
Progress = Callable[[str, int, int], None]


def padded(
    input_ids: Sequence[int], segment_ids: Sequence[int], length: int
) -> dict[str, list[int]]:
    """Pads the ids of a sequence with zeros.

    As released: the padding id is 0, whatever the id of [PAD] is.

    Returns:
        `input_ids`, `input_mask` and `segment_ids`, `[length]` each.
    """
    padding = [0] * (length - len(input_ids))
    return {
        "input_ids": [*input_ids, *padding],
        "input_mask": [1] * len(input_ids) + padding,
        "segment_ids": [*segment_ids, *padding],
    }


def tokenize_words(
    words: Iterable[str],
    tokenizer: tokenization.FullTokenizer,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> dict[str, tuple[str, ...]]:
    """Tokenizes every distinct word once; returns word -> word pieces."""
    words = list(dict.fromkeys(words))
    chunks = [
        words[start : start + _WORDS_PER_CHUNK]
        for start in range(0, len(words), _WORDS_PER_CHUNK)
    ]
    num_workers = min(
        num_workers or os.cpu_count() or 1,
        max(1, len(words) // _MIN_WORDS_PER_PROCESS),
    )
    pieces_of: dict[str, tuple[str, ...]] = {}
    found = processes.map_in_order(
        functools.partial(_tokenize, tokenizer), chunks, num_workers
    )
    for chunk, pieces in zip(chunks, found, strict=True):
        pieces_of.update(zip(chunk, pieces, strict=True))
        if progress:
            progress("words", len(pieces_of), len(words))
    return pieces_of


def pieces_of_text(
    text: str, pieces_of: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Concatenates the pieces of the words of a text, which are its pieces."""
    words = text.split(" ")
    return tuple(
        itertools.chain.from_iterable(map(pieces_of.__getitem__, words))
    )


def _tokenize(
    tokenizer: tokenization.FullTokenizer, words: Sequence[str]
) -> list[tuple[str, ...]]:
    return [tuple(tokenizer.tokenize(word)) for word in words]
