"""Fast tokenizer without TensorFlow, which remembers the ids of each word.

Data creation uses it: many processes start at once, stay small, and read much
text. It gives the ids of `tokenization.FullTokenizer` for every string.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable

import numpy as np

from vocab import tokenization

# About 40 MB. Beyond it words are rare, and a larger table slower to look up.
_MAX_WORDS = 1 << 17
_MAX_WORD_CHARACTERS = 100  # A longer one hardly comes again.
# What `str.split` takes for white space and the definition removes.
_VANISHING = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
# Of ASCII, all that is printed and neither letter nor digit is punctuation.
_ASCII_PARTS = re.compile("[0-9A-Za-z]+|[^0-9A-Za-z]")
_ID_BYTES = 4
_CONTINUATION = "##"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaggedIds:
    """The ids of `N` texts end to end.

    Attributes:
        ids: `[total]` int32.
        row_lengths: `[N]` int64, how many of them each text has.
    """

    ids: np.ndarray
    row_lengths: np.ndarray

    def rows(self) -> list[np.ndarray]:
        """Returns the ids text by text, `N` arrays."""
        return np.split(self.ids, np.cumsum(self.row_lengths))[:-1]


class WordMemory:
    """Cuts many texts, exactly as `FullTokenizer` cuts each.

    No rule of the definition looks past white space, so that a word is cut the
    same wherever it stands.

    Args:
        vocab_file: one token a line.
        do_lower_case: must be what the model was trained with.

    Attributes:
        definition: the tokenizer that says what is right.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a line of the file is not UTF-8.
    """

    def __init__(self, vocab_file: str, do_lower_case: bool = True):
        self.definition = tokenization.FullTokenizer(vocab_file, do_lower_case)
        pieces = _Pieces(self.definition)
        self._ids_of_part = _Memory(pieces.ids_of).__getitem__
        self._ids_of = _Memory(self._cut).__getitem__

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

    def _cut(self, word: str) -> bytes:
        """Cuts what stands between white space."""
        basic = self.definition.basic_tokenizer
        if word.isascii() and word.isprintable():
            word = word.lower() if basic.do_lower_case else word
            if word.isalnum():
                return self._ids_of_part(word)
            parts = _ASCII_PARTS.findall(word)
        else:
            parts = basic.tokenize(word)
        return b"".join(map(self._ids_of_part, parts))


class _Pieces:
    """Cuts words without punctuation, and punctuation marks, into pieces.

    Does what the definition's `WordpieceTokenizer` does, on bytes of ids.
    """

    def __init__(self, definition: tokenization.FullTokenizer):
        rules = definition.wordpiece_tokenizer
        self._max_characters = rules.max_input_chars_per_word
        self._unknown = rules.unk_token
        self._definition = definition
        # As the vocabulary has them, which may have ## at the beginning of a
        # word too, and without their ##.
        self._first = {
            token: index.to_bytes(_ID_BYTES, sys.byteorder)
            for token, index in definition.vocab.items()
        }
        self._next = {
            piece.removeprefix(_CONTINUATION): ids
            for piece, ids in self._first.items()
            if piece.startswith(_CONTINUATION)
        }
        self._longest = max(map(len, self._first), default=0)

    def ids_of(self, word: str) -> bytes:
        """Returns the ids of the pieces of a word.

        Raises:
            KeyError: the word is unknown and the vocabulary has no [UNK].
        """
        if len(word) <= self._max_characters:
            if word in self._first:
                return self._first[word]
            found = self._cut(word)
            if found is not None:
                return found
        (unknown,) = self._definition.convert_tokens_to_ids([self._unknown])
        return unknown.to_bytes(_ID_BYTES, sys.byteorder)

    def _cut(self, word: str) -> bytes | None:
        """Takes the longest piece that fits, from the left."""
        found = b""
        pieces, start = self._first, 0
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                ids = pieces.get(word[start:end])
                if ids is not None:
                    break
            else:
                return None
            found += ids
            pieces, start = self._next, end
        return found


class _Memory(dict):
    """Word -> the bytes of its ids, filled as words come."""

    def __init__(self, cut: Callable[[str], bytes]):
        super().__init__()
        self._cut = cut

    def __missing__(self, word: str) -> bytes:
        found = self._cut(word)
        if len(word) <= _MAX_WORD_CHARACTERS:
            if len(self) >= _MAX_WORDS:
                self.clear()
            self[word] = found
        return found
