"""The Python with the peers that tests compare this project with."""

import os

import pytest

PYTHON = os.environ.get("BERT_PEER_PYTHON", "")
MARKS = [
    pytest.mark.peer,
    pytest.mark.skipif(
        not PYTHON,
        reason="BERT_PEER_PYTHON must name a Python with transformers, torch",
    ),
]
