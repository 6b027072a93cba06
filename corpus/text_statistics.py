"""What a text looks like to the tokenizer: lengths, unknown words, repeats."""

import array
import collections
import dataclasses
from collections.abc import Iterable

import numpy as np

from tasks.masked_lm import record_contents
from vocab import tokenization

_MOST_KEPT = 10
# Beyond so many different lines the first ones alone are compared: 100 MB.
_MAX_LINES_COMPARED = 1_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextStatistics:
    """Counts and spreads of a text.

    Attributes:
        num_documents: of the text.
        num_sentences: its lines that are not empty.
        num_words: words and punctuation marks, as `BasicTokenizer` cuts them.
        num_pieces: what the words are cut into.
        num_whole: words that are one piece, `[UNK]` not counted.
        num_unknown: words that become `[UNK]`.
        num_letters: of which `num_capitals` are capitals.
        num_capitals: before anything is lower-cased.
        num_too_long: sentences that do not fit into a sequence.
        num_cut: the pieces by which they are too long.
        num_repeated: lines that stood further up already.
        num_single: documents of one sentence.
        sentences_per_document: how many there are.
        pieces_per_sentence: how many there are.
        unknown_words: the most frequent ones, with their counts.
        repeated_lines: likewise.
    """

    num_documents: int
    num_sentences: int
    num_words: int
    num_pieces: int
    num_whole: int
    num_unknown: int
    num_letters: int
    num_capitals: int
    num_too_long: int
    num_cut: int
    num_repeated: int
    num_single: int
    sentences_per_document: record_contents.Spread
    pieces_per_sentence: record_contents.Spread
    unknown_words: tuple[tuple[str, int], ...]
    repeated_lines: tuple[tuple[str, int], ...]


def measure(
    documents: Iterable[list[str]],
    tokenizer: tokenization.FullTokenizer,
    max_pieces: int,
) -> TextStatistics:
    """Goes through a text once.

    Args:
        documents: lists of sentences.
        tokenizer: of the model that the text is for.
        max_pieces: the longest sentence that fits.
    """
    counter = _Counter(tokenizer)
    for document in documents:
        counter.add(document)
    return counter.statistics(max_pieces)


class _Counter:
    """Adds documents up."""

    def __init__(self, tokenizer: tokenization.FullTokenizer):
        self._basic = tokenizer.basic_tokenizer
        self._word_piece = tokenizer.wordpiece_tokenizer
        self._num_pieces: dict[str, int] = {}
        self._words: collections.Counter[str] = collections.Counter()
        self._lines: set[int] = set()
        self._repeated: collections.Counter[str] = collections.Counter()
        self._num_repeated = self._num_letters = self._num_capitals = 0
        self._document_sizes = array.array("q")
        self._sentence_sizes = array.array("q")

    def add(self, document: list[str]) -> None:
        self._document_sizes.append(len(document))
        for sentence in document:
            words = self._basic.tokenize(sentence)
            self._words.update(words)
            self._sentence_sizes.append(sum(map(self._count_pieces, words)))
            self._num_letters += sum(map(str.isalpha, sentence))
            self._num_capitals += sum(map(str.isupper, sentence))
            self._compare(sentence)

    def _count_pieces(self, word: str) -> int:
        count = self._num_pieces.get(word)
        if count is None:
            pieces = self._word_piece.tokenize(word)
            # Told apart from a word of one piece by the sign.
            is_unknown = pieces == [self._word_piece.unk_token]
            count = self._num_pieces[word] = -1 if is_unknown else len(pieces)
        return abs(count)

    def _compare(self, sentence: str) -> None:
        line = hash(sentence)  # Eight bytes stand for a line of any length.
        if line in self._lines:
            self._num_repeated += 1
            self._repeated[sentence] += 1
        elif len(self._lines) < _MAX_LINES_COMPARED:
            self._lines.add(line)

    def statistics(self, max_pieces: int) -> TextStatistics:
        pieces = self._num_pieces
        unknown = collections.Counter(
            {word: n for word, n in self._words.items() if pieces[word] < 0}
        )
        documents = np.frombuffer(self._document_sizes, np.int64)
        sentences = np.frombuffer(self._sentence_sizes, np.int64)
        return TextStatistics(
            num_documents=len(documents),
            num_sentences=len(sentences),
            num_words=self._words.total(),
            num_pieces=int(sentences.sum()),
            num_whole=sum(n for w, n in self._words.items() if pieces[w] == 1),
            num_unknown=unknown.total(),
            num_letters=self._num_letters,
            num_capitals=self._num_capitals,
            num_too_long=int((sentences > max_pieces).sum()),
            num_cut=int(np.maximum(sentences - max_pieces, 0).sum()),
            num_repeated=self._num_repeated,
            num_single=int((documents == 1).sum()),
            sentences_per_document=record_contents.spread_of(documents),
            pieces_per_sentence=record_contents.spread_of(sentences),
            unknown_words=tuple(unknown.most_common(_MOST_KEPT)),
            # A line is counted from its second time on.
            repeated_lines=tuple(
                (line, n + 1)
                for line, n in self._repeated.most_common(_MOST_KEPT)
            ),
        )
