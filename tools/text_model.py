"""Model, tokenizer and encoded text of the tools that show model outputs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tasks import features
from tasks.classification import sentence_pairs
from training import flags as training_flags
from vocab import tokenization

if TYPE_CHECKING:
    from modeling import config as config_lib


def open_files(
    options: training_flags.ModelOptions, *special_tokens: str
) -> tuple["config_lib.BertConfig", tokenization.FullTokenizer]:
    """Reads configuration and vocabulary, without importing TensorFlow.

    Args:
        options: of the tool.
        *special_tokens: which the vocabulary must contain.

    Raises:
        OSError: a file cannot be opened.
        ValueError: the checkpoint is missing, or configuration and vocabulary
            do not fit together.
    """
    from modeling import checkpoints
    from modeling import config as config_lib

    checkpoints.find(options.init_checkpoint)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    tokenizer = tokenization.open_tokenizer(options, *special_tokens)
    config.check_vocabulary(tokenizer.vocab_size, options.vocab_file)
    return config, tokenizer


def encode(
    text: str, tokenize: Callable[[str], list[str]], max_length: int
) -> tuple[list[str], list[int]]:
    """Returns the tokens and segment ids of a text or a pair.

    Args:
        text: one text or `A ||| B`, split at the last separator, as released.
        tokenize: splits each of the two into tokens.
        max_length: maximum number of tokens, including [CLS] and [SEP].

    Raises:
        ValueError: the text is too long.
    """
    tokens, segment_ids = sentence_pairs.join(
        *map(tokenize, features.split_pair(text))
    )
    if len(tokens) > max_length:
        raise ValueError(
            f"The text must have at most {max_length} word pieces with [CLS] "
            f"and [SEP]; got {len(tokens)}: {text[:60]!r}... Shorten it."
        )
    return list(tokens), list(segment_ids)
