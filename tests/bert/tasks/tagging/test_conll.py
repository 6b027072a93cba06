import dataclasses
import logging

import pytest

from bert.tasks.tagging import conll

_CONLL_2003 = (
    "-DOCSTART- -X- -X- O\n"
    "\n"
    "EU NNP B-NP B-ORG\n"
    "rejects VBZ B-VP O\n"
    "\n"
    "Peter NNP B-NP B-PER\n"
    "\n"
    "-DOCSTART- -X- -X- O\n"
    "\n"
    "BRUSSELS NNP B-NP B-LOC\n"
)


def _read(tmp_path, text, columns=None, name="file.txt"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return conll.read(str(path), columns or conll.WORD_AND_TAG)


def test_sentences_words_tags_lines_and_documents(tmp_path):
    file = _read(tmp_path, _CONLL_2003)
    assert file.has_documents
    assert file.tags == [("B-ORG", "O"), ("B-PER",), ("B-LOC",)]
    assert file.sentences == (
        conll.Sentence(
            words=("EU", "rejects"),
            tags=("B-ORG", "O"),
            lines=(3, 4),
            document=1,
        ),
        conll.Sentence(
            words=("Peter",), tags=("B-PER",), lines=(6,), document=1
        ),
        conll.Sentence(
            words=("BRUSSELS",), tags=("B-LOC",), lines=(10,), document=2
        ),
    )


def test_line_ends_marks_and_empty_lines_do_not_matter(tmp_path):
    odd = "\ufeff" + _CONLL_2003.replace("\n\n", "\n \t\n\n").replace(
        "\n", "\r\n"
    ).rstrip("\r\n")
    plain = _read(tmp_path, _CONLL_2003).sentences
    assert [(s.words, s.tags, s.document) for s in plain] == [
        (s.words, s.tags, s.document) for s in _read(tmp_path, odd).sentences
    ]


def test_without_document_starts_each_sentence_is_a_document(tmp_path):
    file = _read(tmp_path, "a O\n\nb O\nc O\n")
    assert not file.has_documents
    assert [s.document for s in file.sentences] == [0, 1]
    path = tmp_path / "documents.txt"
    path.write_text("-DOCSTART- O\n\na O\n\nb O\n")
    for with_documents, expected in ((True, [1, 1]), (False, [0, 1])):
        file = conll.read(
            str(path), conll.WORD_AND_TAG, with_documents=with_documents
        )
        assert [s.document for s in file.sentences] == expected


def test_columns_parted_by_tabs_keep_spaces(tmp_path):
    # Those around a cell are left out.
    text = "1\t 10 000 \tB-NUM\n2\tu\u00a0v\tO\n"
    file = _read(tmp_path, text, _columns(1))
    assert file.sentences[0].words == ("10 000", "u\u00a0v")
    assert _read(tmp_path, "\u00a0\tO\n").sentences[0].words == ("\u00a0",)


def _columns(word, tag=-1):
    return (word, tag)


def test_rows_of_a_word_alone_have_no_tags(tmp_path):
    assert not _read(tmp_path, "a\nb\n").tags
    assert not _read(tmp_path, "a x\n", _columns(0, None)).tags


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("word:0,tag:-1", (0, -1)),
        (" tag:3 , word:1", (1, 3)),
        ("word:2", (2, None)),
    ],
)
def test_parse_columns(text, columns):
    assert conll.parse_columns(text) == columns


@pytest.mark.parametrize(
    "text", ["", "tag:1", "word:a", "word:0,word:1", "word:0,tag:0", "pos:1"]
)
def test_parse_columns_refuses(text):
    with pytest.raises(ValueError, match=r"--columns must give .*word:0,tag"):
        conll.parse_columns(text)


def test_ragged_rows_name_file_and_lines(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"file.txt, line 4: .* has 2 \('c O'\) and line 2 has 3 \('a X O",
    ):
        _read(tmp_path, "-DOCSTART-\na X O\n\nc O\n")


def test_absent_column_names_file_and_line(tmp_path):
    with pytest.raises(
        ValueError, match=r"file.txt, line 1: .* tag in col.* 5"
    ):
        _read(tmp_path, "a X O\n", _columns(0, 5))


def test_empty_cell_names_file_and_line(tmp_path):
    with pytest.raises(
        ValueError, match=r"line 2: the word .column 1. is empty"
    ):
        _read(tmp_path, "1\ta\tO\n2\t\tO\n", _columns(1))


def test_files_without_a_sentence_are_refused(tmp_path):
    for text in ("", "\n\n", "-DOCSTART- O\n\n"):
        with pytest.raises(ValueError, match="at least one sentence"):
            _read(tmp_path, text)


def test_documents_without_sentences_are_no_matter(tmp_path, caplog):
    text = "-DOCSTART- O\n\n-DOCSTART- O\na O\n\n-DOCSTART- O\n"
    file = _read(tmp_path, text)
    assert len(file.sentences) == 1
    assert not caplog.text


def test_predictions_are_read_again(tmp_path):
    (first, second) = (
        conll.Sentence(words=words, tags=None, lines=(1, 2), document=0)
        for words in (("a", "b"), ("c d",))
    )
    tags = [("O", "O"), ("B-A",)]
    lines = list(conll.prediction_lines([first, second], tags))
    assert lines == ["a O\n", "b O\n", "\n", "c d\tB-A\n", "\n"]
    file = _read(tmp_path, "".join(lines))
    assert [s.words for s in file.sentences] == [("a", "b"), ("c d",)]
    sentences = [
        dataclasses.replace(first, tags=("O", "B-A")),
        dataclasses.replace(second, tags=("O",)),
    ]
    lines = conll.prediction_lines(sentences, tags)
    assert "".join(lines) == "a O O\nb B-A O\n\nc d\tO\tB-A\n\n"


_CONLL_U = (
    "# newdoc\n"
    "# text = Vámonos al mar\n"
    "1-2\tVámonos\t_\t_\n"
    "1\tVamos\tir\tVERB\n"
    "2\tnos\tnosotros\tPRON\n"
    "3-4\tal\t_\t_\n"
    "3\ta\ta\tADP\n"
    "4\tel\tel\tDET\n"
    "5\tmar\tmar\tNOUN\n"
    "\n"
    "# text = Sue likes coffee and Bill tea\n"
    "1\tSue\tSue\tPROPN\n"
    "1.1\tlikes\tlike\tVERB\n"
    "2\ttea\ttea\tNOUN\n"
)


@pytest.mark.parametrize("name", ["a.conllu", "A.CONLLU", "a.conllup"])
def test_conll_u_is_named_by_its_file(tmp_path, caplog, name):
    with caplog.at_level(logging.INFO):
        file = _read(tmp_path, _CONLL_U, (1, 3), name)
    assert [s.words for s in file.sentences] == [
        ("Vamos", "nos", "a", "el", "mar"),
        ("Sue", "tea"),
    ]
    assert file.tags == [
        ("VERB", "PRON", "ADP", "DET", "NOUN"),
        ("PROPN", "NOUN"),
    ]
    assert file.sentences[0].lines == (4, 5, 7, 8, 9)
    assert "6 rows that are no words, such as comments, are" in caplog.text
    with pytest.raises(ValueError, match=r"pass --columns=word:1,tag:3\.$"):
        _read(tmp_path, _CONLL_U, name=name)
    with pytest.raises(ValueError, match=r"line 2: .* files named NAME.conllu"):
        _read(tmp_path, _CONLL_U, (1, 3))


def test_marks_of_documents_of_ontonotes_are_left_out(tmp_path):
    text = (
        "#begin document (bc/cctv/00); part 000\n"
        "bc/cctv/00 0 0 In IN *\nbc/cctv/00 0 1 # NN *\n\n"
        "#end document\n"
    )
    file = _read(tmp_path, text, (3, 4))
    assert [s.words for s in file.sentences] == [("In", "#")]
    assert [s.lines for s in file.sentences] == [(2, 3)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# O\na O\n", ("#", "a")),
        ("#1 B-NEW\na O\n", ("#1", "a")),
        ("#\na\n", ("#", "a")),
        # The sign of pounds has a tag of its own in the Penn Treebank.
        ("#\t#\n200\tCD\n", ("#", "200")),
        ("1-2\tO\n3.1\tO\n", ("1-2", "3.1")),
    ],
)
def test_rows_of_plain_files_are_words(tmp_path, text, words):
    assert _read(tmp_path, text).sentences[0].words == words


@pytest.mark.parametrize(
    "name", ["a.csv", "a.json", "a.JSONL", "a.parquet", "a.xml"]
)
def test_files_that_name_another_format_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"must be a column file.*--columns"):
        _read(tmp_path, "a O\n\nb O\n", name=name)


def test_spellings_of_a_tag_are_one_tag_and_capitals_are_not(tmp_path):
    tags = ("B-caf\u00e9", "B-cafe\u0301", "B-caf\u00e9\u200b", "B-Caf\u00e9")
    file = _read(tmp_path, "".join(f"a\t{tag}\n" for tag in tags))
    assert file.tags == [(*["B-caf\u00e9"] * 3, "B-Caf\u00e9")]


def test_a_document_may_begin_in_the_column_of_words(tmp_path):
    text = "0\t-DOCSTART-\tO\n\n1\ta\tO\n\n1\tb\tX\n"
    file = _read(tmp_path, text, (1, 2))
    assert file.has_documents
    assert [s.words for s in file.sentences] == [("a",), ("b",)]
    assert [s.document for s in file.sentences] == [1, 1]
