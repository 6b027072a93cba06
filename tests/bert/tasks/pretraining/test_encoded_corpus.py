"""Text -> documents -> arrays of ids."""

import numpy as np
import pytest

from bert.tasks.pretraining import encoded_corpus
from vocab import word_memory


def _read(folder, *texts):
    input_paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.txt"
        path.write_bytes(text)
        input_paths.append(str(path))
    return list(encoded_corpus.read_documents(input_paths))


def test_reads_documents_between_blank_lines(tmp_path):
    text = b"\n a b\nc\n\n \t\n\xe3\x80\x80\nd e\n\n"
    assert _read(tmp_path, text) == [["a b", "c"], ["d e"]]


def test_a_file_and_a_last_line_end_no_document(tmp_path):
    assert _read(tmp_path, b"a\n\nb") == [["a"], ["b"]]
    assert _read(tmp_path, b"a\n", b"b\n") == [["a", "b"]]
    assert _read(tmp_path, b"a\n\n", b"", b"b\n") == [["a"], ["b"]]


def test_a_line_that_is_not_utf8_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"0\.txt, line 2: not UTF-8"):
        _read(tmp_path, b"a\n\xff\n")


def _encode(texts):
    """One token for each letter, which is its code; none for others."""
    rows = [[ord(c) for c in text if c.isalpha()] for text in texts]
    return word_memory.RaggedIds(
        ids=np.array([i for row in rows for i in row], np.int32),
        row_lengths=np.array([len(row) for row in rows], np.int64),
    )


def test_documents_end_to_end():
    corpus = encoded_corpus.encode_documents(
        [["ab", "?", "c"], ["?"], [], ["def"], ["?", "g"], ["?", "?"]], _encode
    )
    assert "".join(map(chr, corpus.ids)) == "abcdefg"
    assert corpus.ids.dtype == np.int32
    # As released: what has no token is left out.
    assert list(corpus.sentence_starts) == [0, 2, 3, 6, 7]
    assert list(corpus.document_starts) == [0, 2, 3, 4]
    assert (corpus.num_sentences, corpus.num_documents) == (4, 3)
    assert corpus.num_tokenless == 5
    nothing = encoded_corpus.encode_documents([["?"]], _encode)
    assert (nothing.num_sentences, nothing.num_documents) == (0, 0)
    assert nothing.ids.shape == (0,)


def test_one_document_is_a_warning():
    (text,) = encoded_corpus.corpus_warnings(1)
    assert "one document" in text
    assert encoded_corpus.corpus_warnings(2) == []
