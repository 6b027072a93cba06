"""Casing and accents against the BertTokenizer of transformers."""

import json
import random
import subprocess
import unicodedata

import pytest

from tests.support import peer
from vocab import tokenization

pytestmark = [*peer.MARKS, pytest.mark.slow]

# Splits each text, given in the hexadecimal form of its UTF-8, into words.
_WORDS = """
import json, sys
from transformers import BertTokenizer

lower, strip = json.loads(sys.argv[1])
tokenizer = BertTokenizer(
    vocab={"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3, "[MASK]": 4},
    do_lower_case=lower,
    strip_accents=strip,
)
backend = tokenizer.backend_tokenizer
for line in sys.stdin:
    text = bytes.fromhex(line.strip()).decode()
    text = backend.normalizer.normalize_str(text)
    words = backend.pre_tokenizer.pre_tokenize_str(text)
    print(json.dumps([word for word, _ in words]))
"""


def _differing(texts, rules):
    """Returns the texts that the peer splits into other words."""
    done = subprocess.run(
        [peer.PYTHON, "-c", _WORDS, json.dumps(rules)],
        input="\n".join(text.encode().hex() for text in texts),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    basic = tokenization.BasicTokenizer(*rules)
    return [
        text
        for text, words in zip(texts, found, strict=True)
        if basic.tokenize(text) != words
    ]


_RULES = [(True, None), (True, False), (False, True), (False, None)]


def _characters():
    """Lists the characters of one category in all versions of Unicode.

    The peer has the categories of another version than Python.
    """
    earliest = unicodedata.ucd_3_2_0
    return [
        char
        for char in map(chr, range(0x110000))
        if unicodedata.category(char) not in ("Cn", "Co", "Cs")
        and unicodedata.category(char) == earliest.category(char)
    ]


@pytest.mark.parametrize("rules", _RULES)
def test_every_character_in_a_word(rules):
    chars = _characters()
    assert len(chars) > 90_000
    assert _differing([f"a{char}B" for char in chars], rules) == []


@pytest.mark.parametrize("rules", _RULES)
def test_random_texts(rules):
    rng = random.Random(5)
    # As released, a sigma at the end of a word becomes another letter; the peer
    # lower-cases each character by itself.
    chars = [char for char in _characters() if char != "\u03a3"]
    common = "aA \t\u0301\u0327\xad'.-\u4e2d\uac00\u0130\xc5\xe9\u1e69"
    texts = [
        "".join(
            rng.choice(common if rng.random() < 0.7 else chars)
            for _ in range(rng.randint(0, 30))
        )
        for _ in range(20_000)
    ]
    assert _differing(texts, rules) == []


def test_words_keep_their_accents():
    basic = tokenization.BasicTokenizer(True, False)
    text = "\xc5rhus, Vi\u1ec7t CAF\xc9 cafe\u0301"
    assert basic.tokenize(text) == [
        *("\xe5rhus", ",", "vi\u1ec7t", "caf\xe9", "cafe\u0301")
    ]
    assert _differing([text], (True, False)) == []
