"""Damaged column files."""

import pytest

from bert.files import row_files
from bert.tasks.tagging import conll
from tests.fuzz import mutations

_GOODS = (
    b"-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n"
    b"Peter NNP I-NP B-PER\nBlackburn NNP I-NP I-PER\n",
    "東京\tB-LOC\nNew York\tB-LOC\n\nis\tO".encode(),
    b"word\nother\n\nthird\n",
)


@pytest.mark.parametrize("columns", ["word:0,tag:-1", "word:1,tag:0", "word:0"])
def test_words_are_those_of_their_lines_or_an_error(check, columns):
    def is_right(file, content):
        text = content.replace(b"\r", b"").decode("utf-8-sig")
        lines = text.split("\n")
        words = tags = 0
        for sentence in file.sentences:
            held = [lines[number - 1] for number in sentence.lines]
            words += len(held)
            assert len(held) == len(sentence.words)
            assert all(map(str.__contains__, held, sentence.words))
            if sentence.tags is not None:
                tags += len(sentence.tags)
                spelled = map(row_files.spelling_key, held)
                assert all(map(str.__contains__, spelled, sentence.tags))
        stripped = [line.strip(" \t") for line in lines]
        starts = sum(
            conll.DOCUMENT_START
            in [c.strip(" ") for c in line.split("\t" if "\t" in line else " ")]
            for line in stripped
        )
        rows = sum(bool(line.strip(" \t")) for line in lines) - starts
        return words == rows and tags in (0, words)

    cases = mutations.endless(5, _GOODS, mutations.TEXT_WORDS)
    check(
        lambda path: conll.read(path, conll.parse_columns(columns)),
        "train.txt",
        cases,
        is_right,
    )
