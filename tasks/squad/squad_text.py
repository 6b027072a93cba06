"""Word pieces back to the characters of the paragraph.

Source: behaviour of run_squad.py of google-research/bert, measured.
"""

from collections.abc import Sequence
from typing import Protocol

from absl import logging


class BasicTokenizer(Protocol):
    """Text -> words and punctuation marks, those of each part between spaces
    one after the other; `vocab.tokenization.BasicTokenizer` is of this kind.
    """

    def tokenize(self, text: str) -> list[str]: ...


def get_final_text(
    pred_text: str, orig_text: str, basic_tokenizer: BasicTokenizer
) -> str:
    """Finds the characters of the paragraph that word pieces stand for.

    The words of the paragraph say too much ("Steve Smith's" for the pieces
    of "steve smith"), the pieces too little (case and accents are gone). So
    the pieces are found in the tokenized words, and the place is counted in
    characters that are not spaces.

    Args:
        pred_text: the pieces of an answer, joined to words.
        orig_text: the words of the paragraph that they were cut from.
        basic_tokenizer: the one that cut them.

    Returns:
        A part of `orig_text`; all of it where the place cannot be counted,
        because tokenizing changed the number of characters.
    """
    tok_text = " ".join(basic_tokenizer.tokenize(orig_text))
    return project(pred_text, orig_text, tok_text)


def project(pred_text: str, orig_text: str, tok_text: str) -> str:
    """Does what `get_final_text` does, `orig_text` being tokenized already.

    Args:
        pred_text: the pieces of an answer, joined to words.
        orig_text: the words of the paragraph that they were cut from.
        tok_text: the basic tokens of `orig_text`, joined by spaces.
    """
    start = tok_text.find(pred_text)
    if start < 0 or not pred_text or not orig_text:
        logging.debug("%r is not in %r.", pred_text, tok_text)
        return orig_text
    places = [i for i, char in enumerate(orig_text) if char != " "]
    # As released: also where only something after the answer changed length.
    if len(places) != len(tok_text) - tok_text.count(" "):
        logging.debug("Tokens change the length of %r.", orig_text)
        return orig_text
    end = start + len(pred_text) - 1
    if " " in (tok_text[start], tok_text[end]):
        return orig_text
    first = start - tok_text.count(" ", 0, start)
    last = end - tok_text.count(" ", 0, end)
    return orig_text[places[first] : places[last] + 1]


class BasicText:
    """Tokenizes words of a paragraph, each distinct one once."""

    def __init__(self, basic_tokenizer: BasicTokenizer):
        self._tokenizer = basic_tokenizer
        self._text_of = {}

    def __call__(self, words: Sequence[str]) -> str:
        for word in words:
            if word not in self._text_of:
                self._text_of[word] = " ".join(self._tokenizer.tokenize(word))
        return " ".join(filter(None, map(self._text_of.get, words)))


def join_pieces(pieces: Sequence[str]) -> str:
    """Joins word pieces to words with one space between them."""
    text = " ".join(pieces).replace(" ##", "").replace("##", "")
    return " ".join(text.split())
