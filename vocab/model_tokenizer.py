"""The tokenizer that belongs to a model."""

from typing import Protocol

from vocab import tokenization


class TextOptions(Protocol):
    """What a run says of its text.

    Attributes:
        vocab_file: a piece a line.
        do_lower_case: whether text is lower-cased.
        init_checkpoint: weights, whose name may say which case they read.
    """

    vocab_file: str
    do_lower_case: bool
    init_checkpoint: str | None


def open_tokenizer(
    options: TextOptions, *special_tokens: str
) -> tokenization.FullTokenizer:
    """Opens the tokenizer that a run reads text with.

    Args:
        options: of the run.
        *special_tokens: what the vocabulary must hold.

    Raises:
        OSError: the vocabulary cannot be opened.
        ValueError: the casing is not the checkpoint's, or a token is missing.
    """
    tokenization.validate_case_matches_checkpoint(
        options.do_lower_case, options.init_checkpoint
    )
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, do_lower_case=options.do_lower_case
    )
    tokenizer.require_tokens(*special_tokens)
    return tokenizer
