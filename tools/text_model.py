"""Model, tokenizer and encoded text of the tools that show model outputs."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from absl import logging

from commands import flags
from tasks import features
from tasks.classification import sentence_pairs
from vocab import tokenization

if TYPE_CHECKING:
    import keras

    from modeling import config as config_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Flags that say which model is loaded, and how it reads text."""

    bert_config_file: str = flags.Group.MODEL.required(
        "JSON file with the sizes of the model."
    )
    init_checkpoint: str = flags.Group.MODEL.required(
        "Checkpoint: prefix, .index file or folder."
    )
    vocab_file: str = flags.Group.TEXT.required(
        "Vocabulary the model was trained with."
    )
    do_lower_case: bool = flags.Group.TEXT.flag(
        True, "Lower-case and strip accents: what the model was trained with."
    )


def open_files(
    options: ModelOptions, *special_tokens: str
) -> tuple["config_lib.BertConfig", tokenization.FullTokenizer]:
    """Reads configuration and vocabulary, without importing TensorFlow.

    Args:
        options: of the tool.
        *special_tokens: what the vocabulary must hold.

    Raises:
        OSError: a file cannot be opened.
        ValueError: there is no checkpoint, or configuration and vocabulary do
            not fit together.
    """
    from modeling import checkpoint_formats
    from modeling import config as config_lib

    checkpoint_formats.find(options.init_checkpoint)
    config = config_lib.BertConfig.from_json_file(options.bert_config_file)
    tokenizer = tokenization.open_tokenizer(options, *special_tokens)
    config.check_vocabulary(tokenizer.vocab_size, options.vocab_file)
    return config, tokenizer


def load_weights(
    model: "keras.Model", options: ModelOptions, unused: list[str]
) -> None:
    """Loads the checkpoint into a model.

    Args:
        model: takes the weights.
        options: of the tool.
        unused: patterns of variables on which no output depends.

    Raises:
        ValueError: the checkpoint is not of BERT, reads text in another case,
            or lacks a weight.
    """
    from modeling import checkpoints
    from training import attention_checks, model_folder

    attention_checks.check_bert(options.init_checkpoint)
    model_folder.check_casing(
        model_folder.of_checkpoint(options.init_checkpoint),
        options.do_lower_case,
    )
    report = checkpoints.load(model, options.init_checkpoint, new=unused)
    logging.info("%s: %s", options.init_checkpoint, report)


def encode(
    text: str, tokenize: Callable[[str], list[str]], max_length: int
) -> tuple[list[str], list[int]]:
    """Turns a text, or a pair, into tokens and their segments.

    Args:
        text: one text or `A ||| B`; as in the release the last separator
            counts.
        tokenize: cuts each of the two.
        max_length: tokens at most, with [CLS] and [SEP].

    Raises:
        ValueError: there is too much text.
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
