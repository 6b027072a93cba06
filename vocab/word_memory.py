"""Fast tokenization without TensorFlow: each distinct word is split once.

Data creation uses `WordMemory`, since its many processes start at once, must
stay small and read much text. It gives the ids of `tokenization.FullTokenizer`.
"""

import dataclasses
import functools
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from files import processes
from vocab import tokenization

# About 40 MB. Further words are rare, and a larger table has slower lookups.
_MAX_WORDS = 1 << 17
_MAX_WORD_CHARACTERS = 100  # Longer words are seldom repeated.
# White space for `str.split` that the reference tokenizer removes.
_VANISHING = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
# ASCII punctuation: printable, and neither a letter nor a digit.
_ASCII_PARTS = re.compile("[0-9A-Za-z]+|[^0-9A-Za-z]")
_ID_BYTES = 4

_WORDS_PER_CHUNK = 8192
# Starting a process takes 0.6 s, about as long as tokenizing this many words.
# Development files need one process; all of SQuAD has work for four.
_MIN_WORDS_PER_PROCESS = 60000
# Called with the name of a phase, the amount done and the total.
Progress = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaggedIds:
    """Concatenated ids of `N` texts.

    Attributes:
        ids: `[total]` int32.
        row_lengths: `[N]` int64, the number of ids of each text.
    """

    ids: np.ndarray
    row_lengths: np.ndarray


class WordMemory(tokenization.FullTokenizer):
    """Tokenizer that also encodes batches of texts.

    No rule of the reference tokenizer depends on text beyond white space, so
    the pieces of a word do not depend on its context.
    """

    @functools.cached_property
    def _ids_of(self) -> Callable[[str], bytes]:
        return _Memory(self._split_word).__getitem__

    @functools.cached_property
    def _ids_of_part(self) -> Callable[[str], bytes]:
        return _Memory(self._split_part).__getitem__

    def encode(self, texts: Iterable[str]) -> RaggedIds:
        """Returns the ids of the pieces of `N` texts.

        Raises:
            KeyError: a word is unknown and the vocabulary has no [UNK].
        """
        rows = [self._encode(text) for text in texts]
        return RaggedIds(
            ids=np.frombuffer(b"".join(rows), np.int32),
            row_lengths=np.array([len(row) for row in rows], np.int64)
            // _ID_BYTES,
        )

    def _encode(self, text: str) -> bytes:
        if not text.isprintable():
            text = _VANISHING.sub("", text)
        return b"".join(map(self._ids_of, text.split()))

    def _split_word(self, word: str) -> bytes:
        # Of text between white space.
        if word.isascii() and word.isprintable():
            if self.basic_tokenizer.do_lower_case:
                word = word.lower()
            if word.isalnum():
                return self._ids_of_part(word)
            parts = _ASCII_PARTS.findall(word)
        else:
            parts = self.basic_tokenizer.tokenize(word)
        return b"".join(map(self._ids_of_part, parts))

    def _split_part(self, part: str) -> bytes:
        # Of a word without punctuation, or a punctuation mark.
        pieces = self.wordpiece_tokenizer.split(part)
        return np.array(self.convert_tokens_to_ids(pieces), np.int32).tobytes()


class _Memory(dict):
    """Mapping of words to bytes of ids, filled on demand."""

    def __init__(self, split: Callable[[str], bytes]):
        super().__init__()
        self._split = split

    def __missing__(self, word: str) -> bytes:
        found = self._split(word)
        if len(word) <= _MAX_WORD_CHARACTERS:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = found
        return found


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
