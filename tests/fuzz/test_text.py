"""Damaged text, vocabularies and pre-training text."""

import hypothesis
from hypothesis import strategies

from bert.files import lines
from bert.tasks.pretraining import encoded_corpus
from tests.fuzz import harness, mutations
from vocab import tokenization

_GOODS = (
    b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##s\n",
    "Zwölf Boxkämpfer\njagen Viktor.\n\n東京 2020\r\n\r\n".encode(),
    b"one\ntwo\n\nthree\n\n\nfour",
    b"",
)


def _meant(content: bytes) -> list[str] | None:
    """Cuts text into lines, by the rule; None if it is not UTF-8."""
    # As released: carriage returns go first, even inside of a character.
    try:
        lines = content.replace(b"\r", b"").decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    return lines if lines[-1] else lines[:-1]


def _cases():
    return mutations.endless(1, _GOODS, mutations.TEXT_WORDS)


def test_lines_are_those_of_the_text_or_an_error(check):
    check(
        lambda path: list(lines.read_lines(path)),
        "text.txt",
        _cases(),
        lambda found, content: found == _meant(content),
    )


def test_vocabularies_number_their_lines_or_an_error(check):
    def is_right(vocab, content):
        tokens = [line.strip() for line in _meant(content)]
        return all(tokens[i] == token for token, i in vocab.items()) and (
            set(vocab) == set(tokens)
        )

    check(
        tokenization.load_vocab,
        "vocab.txt",
        _cases(),
        is_right,
    )


def test_documents_hold_every_line_or_an_error(check):
    def is_right(documents, content):
        held = [line for document in documents for line in document]
        return all(documents) and held == [
            line.strip() for line in _meant(content) if line.strip()
        ]

    check(
        lambda path: list(encoded_corpus.read_documents([path])),
        "text.txt",
        _cases(),
        is_right,
    )


def test_text_comes_back_whatever_it_holds(tmp_path, num_cases):
    path = tmp_path / "text.txt"
    line = strategies.text(
        strategies.characters(codec="utf-8", exclude_characters="\r\n")
    )

    @harness.examples(num_cases)
    @hypothesis.given(strategies.lists(line))
    def claim(texts):
        path.write_bytes("".join(f"{t}\n" for t in texts).encode())
        assert list(lines.read_lines(str(path))) == texts

    claim()
