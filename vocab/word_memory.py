"""Fast tokenizer without TensorFlow, with a cache of the ids of each word.

Data creation uses it, since its many processes start at once, must stay small
and read much text. It gives the ids of `tokenization.FullTokenizer`.
"""

import dataclasses
import re
import sys
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

    def rows(self) -> list[np.ndarray]:
        """Returns `N` arrays, the ids of each text."""
        return np.split(self.ids, np.cumsum(self.row_lengths))[:-1]


class WordMemory:
    """Batch tokenizer with the results of `FullTokenizer`.

    No rule of the reference tokenizer depends on text beyond white space, so
    the pieces of a word do not depend on its context.

    Args:
        vocab_file: one token per line.
        do_lower_case: must match the model.

    Attributes:
        definition: the reference tokenizer.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        self.definition = tokenization.FullTokenizer(vocab_file, do_lower_case)
        self._ids_of_piece = {
            piece: index.to_bytes(_ID_BYTES, sys.byteorder)
            for piece, index in self.definition.vocab.items()
        }
        self._longest_piece = max(map(len, self._ids_of_piece), default=0)
        self._ids_of_part = _Memory(self._split_part).__getitem__
        self._ids_of = _Memory(self._split_word).__getitem__

    def encode(self, texts: Iterable[str]) -> RaggedIds:
        """Returns the ids of the pieces of every text.

        Args:
            texts: `N` texts.

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
        """Tokenizes text between white space."""
        basic = self.definition.basic_tokenizer
        if word.isascii() and word.isprintable():
            word = word.lower() if basic.do_lower_case else word
            if word.isalnum():
                return self._ids_of_part(word)
            parts = _ASCII_PARTS.findall(word)
        else:
            parts = basic.tokenize(word)
        return b"".join(map(self._ids_of_part, parts))

    def _split_part(self, part: str) -> bytes:
        """Tokenizes a word without punctuation, or a punctuation mark.

        It is `WordpieceTokenizer.tokenize`, with ids as bytes.

        Raises:
            KeyError: the part is unknown and the vocabulary has no [UNK].
        """
        rules = self.definition.wordpiece_tokenizer
        if len(part) > rules.max_input_chars_per_word:
            return self._unknown()
        if part in self._ids_of_piece:
            return self._ids_of_piece[part]
        found, start, prefix = b"", 0, ""
        while start < len(part):
            longest_end = min(len(part), start + self._longest_piece)
            for end in range(longest_end, start, -1):
                ids = self._ids_of_piece.get(prefix + part[start:end])
                if ids is not None:
                    break
            else:
                return self._unknown()
            found += ids
            start, prefix = end, "##"
        return found

    def _unknown(self) -> bytes:
        name = self.definition.wordpiece_tokenizer.unk_token
        (index,) = self.definition.convert_tokens_to_ids([name])
        return index.to_bytes(_ID_BYTES, sys.byteorder)


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
