"""Word pieces of many texts: every distinct word is tokenized once."""

import concurrent.futures
import contextlib
import functools
import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

_WORDS_PER_CHUNK = 8192
# A process takes about as long to start as this many words take.
_MIN_WORDS_PER_PROCESS = 30000
# Called with the name of a phase, what is done of it and what there is.
Progress = Callable[[str, int, int], None]


class Tokenizer(Protocol):
    """Text -> word pieces -> ids.

    The pieces of a text must be those of its parts between spaces, one after
    the other; the tokenizers of `vocab` are of this kind.
    """

    def tokenize(self, text: str) -> list[str]: ...

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]: ...


def tokenize_words(
    words: Iterable[str],
    tokenizer: Tokenizer,
    num_workers: int = 0,
    progress: Progress | None = None,
) -> dict[str, tuple[str, ...]]:
    """Tokenizes every distinct word once: word -> word pieces."""
    words = list(dict.fromkeys(words))
    chunks = [
        words[start : start + _WORDS_PER_CHUNK]
        for start in range(0, len(words), _WORDS_PER_CHUNK)
    ]
    tokenize = functools.partial(_tokenize_chunk, tokenizer)
    num_workers = min(
        num_workers or os.cpu_count() or 1,
        max(1, len(words) // _MIN_WORDS_PER_PROCESS),
    )
    pieces_of = {}
    with _mapper(num_workers) as map_chunks:
        for pieces in map_chunks(tokenize, chunks):
            pieces_of.update(pieces)
            if progress:
                progress("words", len(pieces_of), len(words))
    return pieces_of


def pieces_of_text(
    text: str, pieces_of: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Joins the pieces of the words between the spaces of a text."""
    words = text.split(" ")
    return tuple(
        itertools.chain.from_iterable(map(pieces_of.__getitem__, words))
    )


def _tokenize_chunk(
    tokenizer: Tokenizer, words: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    return {word: tuple(tokenizer.tokenize(word)) for word in words}


@contextlib.contextmanager
def _mapper(num_workers: int) -> Iterator[Callable]:
    """Gives a `map` that works in as many processes as asked for."""
    if num_workers == 1:
        yield map
        return
    # Not forked: a process in which TensorFlow runs threads cannot be.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        num_workers, mp_context=context
    ) as pool:
        yield pool.map
