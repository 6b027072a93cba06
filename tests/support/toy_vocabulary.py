"""Tokenizers of vocabularies that a test writes."""

from tests.support import toy_files
from vocab import tokenization

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tokenizer(folder, pieces, *, do_lower_case=True):
    """Writes `vocab.txt` to a folder; returns the reference tokenizer of it."""
    path = folder / "vocab.txt"
    toy_files.write_lines(path, pieces)
    return tokenization.FullTokenizer(str(path), do_lower_case)
