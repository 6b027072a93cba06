"""Fast tokenization without TensorFlow: each distinct word is split once.

The processes of data creation start at once, must stay small and read much
text.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable

import numpy as np

from vocab import tokenization

# About 40 MB. Further words are rare, and a larger table has slower lookups.
_MAX_WORDS = 1 << 17
_MAX_WORD_CHARACTERS = 100  # Longer words are seldom repeated.
# White space for `str.split` that the reference tokenizer removes.
_VANISHING = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
# ASCII punctuation: printable, and neither a letter nor a digit.
_ASCII_PARTS = re.compile("[0-9A-Za-z]+|[^0-9A-Za-z]")
_ID_BYTES = 4


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
        # A word is what stands between white space.
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
        # A part is a word without punctuation, or a punctuation mark.
        pieces = self.wordpiece_tokenizer.split(part)
        return np.array(self.convert_tokens_to_ids(pieces), np.int32).tobytes()


class _Memory(dict):
    """Mapping of words to bytes of ids, filled on demand."""

    def __init__(self, split: Callable[[str], bytes]):
        super().__init__()
        self._split = split

    def __missing__(self, word: str) -> bytes:
        ids = self._split(word)
        if len(word) <= _MAX_WORD_CHARACTERS:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = ids
        return ids
