"""Tokenizers of vocabularies that a test writes."""

from vocab import tokenization


def tokenizer(folder, pieces, *, do_lower_case=True):
    """Writes `vocab.txt` to a folder; returns the reference tokenizer of it."""
    path = folder / "vocab.txt"
    path.write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return tokenization.FullTokenizer(str(path), do_lower_case)
