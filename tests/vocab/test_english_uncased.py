"""The English vocabulary of this project: layout, coverage, origin."""

import collections
import json

import pytest

from tests.support import locations
from vocab import tokenization

_PATH = locations.ROOT / "vocab" / "english_uncased_30522.txt"
_DATA = locations.ROOT.parent / "shared" / "data"


@pytest.fixture(scope="module")
def tokenizer():
    return tokenization.FullTokenizer(str(_PATH))


def test_every_entry_can_be_met(tokenizer):
    for entry in list(tokenizer.vocab)[999:]:
        word = entry.removeprefix("##")
        assert tokenizer.basic_tokenizer.tokenize(word) == [word]


def test_ascii_has_no_unknown_word(tokenizer):
    ascii_text = " ".join(map(chr, range(128)))
    assert "[UNK]" not in tokenizer.tokenize(ascii_text)
    letters = "qzxjkvbw0123456789" * 3
    assert "[UNK]" not in tokenizer.tokenize(letters)


def test_common_words_are_whole(tokenizer):
    text = "The question of who wrote the paper was answered in 1998."
    words = tokenizer.basic_tokenizer.tokenize(text)
    assert tokenizer.tokenize(text) == words


@pytest.mark.shared
def test_questions_need_fewer_pieces_than_with_the_released_vocabulary(
    tokenizer,
):
    squad = _DATA / "squad" / "dev-v1.1.json"
    if not squad.exists():
        pytest.skip(f"{squad} is not here")
    released = tokenization.FullTokenizer(str(_DATA / "vocab" / "uncased.txt"))
    num_pieces, num_unknown = collections.Counter(), collections.Counter()
    for article in json.loads(squad.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for name, one in ("ours", tokenizer), ("released", released):
                pieces = one.tokenize(paragraph["context"])
                num_pieces[name] += len(pieces)
                num_unknown[name] += pieces.count("[UNK]")
    assert num_pieces["ours"] < num_pieces["released"]
    assert num_unknown["ours"] < num_unknown["released"]
