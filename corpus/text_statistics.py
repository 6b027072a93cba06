"""Statistics of tokenized text, and warnings about problems."""

import array
import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator

import numpy as np

from tasks.masked_lm import record_contents
from vocab import tokenization

_MOST_KEPT = 10
# Only the first so many distinct lines are compared, to limit memory to 100 MB.
_MAX_LINES_COMPARED = 1_000_000

# Usual values, as shares of all of the text.
_MAX_SINGLE_SENTENCE_DOCUMENTS = 0.5
_MAX_UNKNOWN_WORDS = 0.01
_MAX_REPEATED_LINES = 0.1
_MAX_PIECES_PER_WORD = 2.0
# English has about 5 % capitals; capitalized text has no lower case.
_FEWEST_CAPITALS = 0.002
_MOST_CAPITALS = 0.5
_FEW_LETTERS = 1000  # Too few to judge.
# Sentences longer than half of a sequence are probably paragraphs.
_MAX_SENTENCE_SHARE = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextStatistics:
    """Counts and distributions of a text.

    Attributes:
        num_documents: documents with sentences.
        num_sentences: lines with tokens.
        num_words: words and punctuation marks, as split by `BasicTokenizer`.
        num_pieces: word pieces of the words.
        num_whole: words that are one piece, except `[UNK]`.
        num_unknown: words that become `[UNK]`.
        num_letters: letters, of which `num_capitals` are capitals.
        num_capitals: counted before lower-casing.
        num_too_long: sentences that do not fit into a sequence.
        num_cut: word pieces by which they are too long.
        num_repeated: lines that occurred before.
        num_single: documents of one sentence.
        sentences_per_document: distribution of the number of sentences.
        pieces_per_sentence: distribution of the number of word pieces.
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
    sentences_per_document: record_contents.Distribution
    pieces_per_sentence: record_contents.Distribution
    unknown_words: tuple[tuple[str, int], ...]
    repeated_lines: tuple[tuple[str, int], ...]


def measure(
    documents: Iterable[list[str]],
    tokenizer: tokenization.FullTokenizer,
    max_pieces: int,
) -> TextStatistics:
    """Measures a text in one pass.

    Args:
        documents: lists of sentences.
        tokenizer: of the model to be trained.
        max_pieces: length of the longest sentence that fits.
    """
    words: collections.Counter[str] = collections.Counter()
    repeated: collections.Counter[str] = collections.Counter()
    seen: set[int] = set()
    num_letters = num_capitals = 0
    document_sizes, sentence_sizes = array.array("q"), array.array("q")

    @functools.cache
    def num_pieces(word: str) -> int:
        pieces = tokenizer.wordpiece_tokenizer.tokenize(word)
        # The sign distinguishes it from a word of one piece.
        is_unknown = pieces == [tokenizer.wordpiece_tokenizer.unk_token]
        return -1 if is_unknown else len(pieces)

    for document in _in_words(documents, tokenizer.basic_tokenizer):
        document_sizes.append(len(document))
        for sentence, found in document:
            words.update(found)
            sentence_sizes.append(sum(abs(num_pieces(word)) for word in found))
            num_letters += sum(map(str.isalpha, sentence))
            num_capitals += sum(map(str.isupper, sentence))
            line = hash(sentence)  # Eight bytes for a line of any length.
            if line in seen:
                repeated[sentence] += 1
            elif len(seen) < _MAX_LINES_COMPARED:
                seen.add(line)

    unknown = collections.Counter(
        {word: n for word, n in words.items() if num_pieces(word) < 0}
    )
    per_document = np.frombuffer(document_sizes, np.int64)
    per_sentence = np.frombuffer(sentence_sizes, np.int64)
    return TextStatistics(
        num_documents=len(per_document),
        num_sentences=len(per_sentence),
        num_words=words.total(),
        num_pieces=int(per_sentence.sum()),
        num_whole=sum(n for w, n in words.items() if num_pieces(w) == 1),
        num_unknown=unknown.total(),
        num_letters=num_letters,
        num_capitals=num_capitals,
        num_too_long=int((per_sentence > max_pieces).sum()),
        num_cut=int(np.maximum(per_sentence - max_pieces, 0).sum()),
        num_repeated=repeated.total(),
        num_single=int((per_document == 1).sum()),
        sentences_per_document=record_contents.summarize(per_document),
        pieces_per_sentence=record_contents.summarize(per_sentence),
        unknown_words=tuple(unknown.most_common(_MOST_KEPT)),
        # Only repetitions of a line are counted.
        repeated_lines=tuple(
            (line, n + 1) for line, n in repeated.most_common(_MOST_KEPT)
        ),
    )


def _in_words(
    documents: Iterable[list[str]], tokenizer: tokenization.BasicTokenizer
) -> Iterator[list[tuple[str, list[str]]]]:
    """Splits sentences into words; drops those without, as data creation does.

    Yields:
        The sentences of a document that has any, each with its words.
    """
    for document in documents:
        split = ((line, tokenizer.tokenize(line)) for line in document)
        if kept := [(line, words) for line, words in split if words]:
            yield kept


def warnings(
    text: TextStatistics, *, max_seq_length: int, do_lower_case: bool
) -> list[str]:
    """Describes probable problems of a pre-training text, one sentence each.

    Args:
        text: its statistics.
        max_seq_length: tokens of a pair created from it.
        do_lower_case: whether the tokenizer lower-cases it.
    """
    num_words, num_lines = max(1, text.num_words), max(1, text.num_sentences)
    median = text.pieces_per_sentence.median
    single = _MAX_SINGLE_SENTENCE_DOCUMENTS * text.num_documents
    checks = (
        (
            text.num_single > single,
            f"{text.num_single:,} of {text.num_documents:,} documents are one "
            "line. Empty lines separate documents, and each line is one "
            "sentence: remove the empty lines between sentences, and "
            "split paragraphs into sentences (python -m tools.prepare_corpus "
            "does).",
        ),
        (
            median > _MAX_SENTENCE_SHARE * max_seq_length,
            f"Half of the lines are longer than {median:.0f} word pieces, of "
            f"{max_seq_length} in a sequence: are they paragraphs? Lines that "
            "do not fit are truncated. Write one sentence per "
            "line (python -m tools.prepare_corpus splits text).",
        ),
        (
            text.num_unknown > _MAX_UNKNOWN_WORDS * text.num_words,
            f"{text.num_unknown / num_words:.1%} of the words become [UNK]: do "
            "vocabulary and casing match the language? "
            "python -m tools.extend_vocab adds words, tools.learn_vocab learns "
            "a vocabulary.",
        ),
        (
            text.num_pieces > _MAX_PIECES_PER_WORD * text.num_words,
            f"Words are split into {text.num_pieces / num_words:.1f} pieces "
            "on average (English with the released vocabulary: 1.1): is "
            "this the vocabulary for this language?",
        ),
        (
            text.num_repeated > _MAX_REPEATED_LINES * text.num_sentences,
            f"{text.num_repeated / num_lines:.0%} of the lines are repetitions "
            "of earlier lines: headers, menus, duplicate documents? They are "
            "easy to learn and teach nothing.",
        ),
    )
    return [
        *record_contents.corpus_warnings(text.num_documents),
        *(sentence for is_wrong, sentence in checks if is_wrong),
        *([] if do_lower_case else _capitals_warnings(text)),
    ]


def _capitals_warnings(text: TextStatistics) -> list[str]:
    """Checks the share of capitals in a text for a cased model."""
    share = text.num_capitals / max(1, text.num_letters)
    if text.num_letters < _FEW_LETTERS:
        return []
    if share > _MOST_CAPITALS:
        return [
            f"{share:.0%} of the letters are capitals, but do_lower_case is "
            "False: a cased vocabulary has few words in capitals."
        ]
    if share < _FEWEST_CAPITALS:
        return [
            f"Only {share:.2%} of the letters are capitals, but do_lower_case "
            "is False: the text may be lower-cased already, or its script has "
            "no capitals. A cased model learns no names from it."
        ]
    return []
