"""Fixtures of the tests of question answering."""

import pytest

from tests.support import locations
from vocab import tokenization


@pytest.fixture(scope="package")
def tokenizer():
    """The tokenizer with which the release made the golden files."""
    return tokenization.FullTokenizer(str(locations.INPUTS / "vocab.txt"))
