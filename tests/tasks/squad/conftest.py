"""Fixtures of the tests of question answering."""

import pathlib

import pytest

from vocab import tokenization

_GOLDEN = pathlib.Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="package")
def tokenizer():
    """The tokenizer with which the release made the golden files."""
    return tokenization.FullTokenizer(str(_GOLDEN / "inputs" / "vocab.txt"))
