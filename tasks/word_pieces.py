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
# A process takes about as long to start, 0.6 s, as this many words take: one
# is enough for the development files, all of SQuAD has work for four.
_MIN_WORDS_PER_PROCESS = 60000
_Pieces = list[tuple[str, ...]]
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
    num_workers = min(
        num_workers or os.cpu_count() or 1,
        max(1, len(words) // _MIN_WORDS_PER_PROCESS),
    )
    pieces_of = {}
    with _tokenizing(tokenizer, num_workers) as tokenize_all:
        for chunk, pieces in zip(chunks, tokenize_all(chunks), strict=True):
            pieces_of.update(zip(chunk, pieces, strict=True))
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


@contextlib.contextmanager
def _tokenizing(
    tokenizer: Tokenizer, num_workers: int
) -> Iterator[Callable[[Iterable[Sequence[str]]], Iterator[_Pieces]]]:
    """Gives a function that tokenizes lists of words, in order."""
    if num_workers == 1:
        yield functools.partial(map, functools.partial(_tokenize, tokenizer))
        return
    # Not forked: a process in which TensorFlow runs threads cannot be.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        num_workers, context, initializer=_keep, initargs=(tokenizer,)
    ) as pool:
        yield functools.partial(pool.map, _tokenize_with_kept)


def _tokenize(tokenizer: Tokenizer, words: Sequence[str]) -> _Pieces:
    return [tuple(tokenizer.tokenize(word)) for word in words]


# A process keeps its tokenizer here: sent with each list of words, the
# vocabulary would take longer than the words.
_kept = []


def _keep(tokenizer: Tokenizer) -> None:
    _kept.append(tokenizer)


def _tokenize_with_kept(words: Sequence[str]) -> _Pieces:
    return _tokenize(_kept[-1], words)
