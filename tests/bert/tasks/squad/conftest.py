"""Fixtures of the tests of question answering."""

import pytest

from tests.support import locations
from vocab import tokenization

_GOLDEN = locations.GOLDEN


@pytest.fixture(scope="package")
def tokenizer():
    """The tokenizer with which the release made the golden files."""
    return tokenization.FullTokenizer(str(_GOLDEN / "inputs" / "vocab.txt"))
