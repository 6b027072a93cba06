"""Pre-training corpus as arrays of token ids, and warnings about its text."""

import array
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from bert.files import lines
from vocab import word_memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus:
    """Concatenated `D` documents of `S` sentences of `N` tokens.

    Attributes:
        ids: `[N]` int32.
        sentence_starts: `[S + 1]` int64, the start of each sentence in `ids`;
            the last is N. Sentences are not empty.
        document_starts: `[D + 1]` int64, the first sentence of each document;
            the last is S. Documents are not empty.
        num_tokenless: sentences dropped because they have no token.
    """

    ids: np.ndarray
    sentence_starts: array.array
    document_starts: array.array
    num_tokenless: int = 0

    @property
    def num_sentences(self) -> int:
        """S."""
        return len(self.sentence_starts) - 1

    @property
    def num_documents(self) -> int:
        """D."""
        return len(self.document_starts) - 1


def read_documents(input_paths: Iterable[str]) -> Iterator[list[str]]:
    """Yields the documents of text files with one sentence per line.

    As released: only blank lines separate documents; the end of a file does
    not.

    Args:
        input_paths: UTF-8 files, read in this order as one text.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a line is not UTF-8; names the file and the line.
    """
    texts = (
        line.strip() for path in input_paths for line in lines.read_lines(path)
    )
    for is_sentence, document in itertools.groupby(texts, bool):
        if is_sentence:
            yield list(document)


def encode_documents(
    documents: Iterable[list[str]],
    encode: Callable[[list[str]], word_memory.RaggedIds],
) -> Corpus:
    """Tokenizes documents into one corpus.

    As released, sentences without tokens, such as control characters, are
    dropped, and so are documents without sentences.

    Args:
        documents: lists of sentences; a one-pass iterator.
        encode: converts texts to ids.
    """
    ids = array.array("i")
    sentence_starts = array.array("q", [0])
    document_starts = array.array("q", [0])
    num_tokenless = 0
    for document in documents:
        encoded = encode(document)
        lengths = [n for n in encoded.row_lengths.tolist() if n]
        num_tokenless += len(document) - len(lengths)
        if lengths:
            starts = itertools.accumulate(lengths, initial=len(ids))
            sentence_starts.extend(itertools.islice(starts, 1, None))
            document_starts.append(len(sentence_starts) - 1)
            ids.frombytes(encoded.ids.tobytes())
    return Corpus(
        ids=np.frombuffer(ids, np.int32) if ids else np.zeros(0, np.int32),
        sentence_starts=sentence_starts,
        document_starts=document_starts,
        num_tokenless=num_tokenless,
    )


def corpus_warnings(num_documents: int) -> list[str]:
    """Checks that the corpus has several documents."""
    if num_documents != 1:
        return []
    return [
        "The corpus is one document, so random next sentences come from the "
        "same document and that task means little. Put a blank line "
        "between documents."
    ]
