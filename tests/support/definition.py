"""Reference implementations of tokenization and of pre-training data.

They apply the rules of the release one by one to strings and lists, without
tables or caches. The records are written with protobuf. To measure the time:

  time python -m tests.support.definition TEXT_FILE VOCAB_FILE OUTPUT_FILE
"""

import functools
import random
import sys
import unicodedata
from collections.abc import Mapping

from bert.tasks.pretraining import encoded_corpus, instance_options
from tests.support import plain_masked_pairs
from vocab import tokenization

_SEED = 12345
_MAX_WORD_CHARACTERS = 200  # Source: the release.


def tokenize(
    text: str, vocab: Mapping[str, int], *, do_lower_case: bool
) -> list[str]:
    """Splits a text into word pieces."""
    pieces = []
    for word in _cleaned(text).split():
        folded = _without_marks(word.lower()) if do_lower_case else word
        for part in _split_at_punctuation(folded):
            pieces += _pieces(part, vocab)
    return pieces


def _cleaned(text: str) -> str:
    kept = []
    for char in text:
        if tokenization.is_removed(char):
            continue
        if tokenization.is_whitespace(char):
            kept.append(" ")
        elif tokenization.is_cjk_ideograph(char):
            kept.append(f" {char} ")
        else:
            kept.append(char)
    return "".join(kept)


def _without_marks(word: str) -> str:
    return "".join(
        char
        for char in unicodedata.normalize("NFD", word)
        if not tokenization.is_combining_mark(char)
    )


def _split_at_punctuation(word: str) -> list[str]:
    parts = [""]
    for char in word:
        if tokenization.is_punctuation(char):
            parts += [char, ""]
        else:
            parts[-1] += char
    # A decomposition may contain white space.
    return [part for text in parts for part in text.split()]


def _pieces(word: str, vocab: Mapping[str, int]) -> list[str]:
    if len(word) > _MAX_WORD_CHARACTERS:
        return ["[UNK]"]
    pieces = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def create_records(text_file: str, vocab_file: str, output_file: str) -> None:
    """Creates the records of a text, as the program does by default."""
    import tensorflow as tf

    from bert.records import framing

    options = instance_options.InstanceOptions()
    vocab = tokenization.load_vocab(vocab_file)
    instances = plain_masked_pairs.create_training_instances(
        plain_masked_pairs.tokenize_documents(
            encoded_corpus.read_documents([text_file]),
            functools.partial(tokenize, vocab=vocab, do_lower_case=True),
        ),
        list(vocab),
        options,
        random.Random(_SEED),
    )
    with open(output_file, "wb") as file:
        for instance in instances:
            features = plain_masked_pairs.instance_features(
                instance,
                lambda tokens: [vocab[token] for token in tokens],
                options,
            )
            message = tf.train.Example()
            for name, values in features.items():
                stored = message.features.feature[name]
                is_float = isinstance(values[0], float)
                numbers = stored.float_list if is_float else stored.int64_list
                numbers.value.extend(values)
            file.write(framing.frame(message.SerializeToString()))


if __name__ == "__main__":
    create_records(*sys.argv[1:])
