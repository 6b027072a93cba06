"""A tag for each word of a sentence."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from modeling import heads
from serving import (
    graph_tokenizer,
    inputs,
    network,
    normalization,
    signatures,
    tag_windows,
)
from tasks.tagging import ner

TASK = "tag"
WORDS = "words"
DOCUMENT = "document"


def servable(
    model: heads.BertForTokenClassification,
    tokenizer: graph_tokenizer.GraphTokenizer,
    labels: Sequence[str],
    max_seq_length: int,
) -> signatures.Servable:
    """Makes the signatures of a tagger.

    They are `serving_default` (`text` `[B]` string, words parted by white
    space of ASCII), `words` (`[B, W]` string, "" after the last word of a
    row), `document` (as `serving_default`, but the B sentences are one
    document, in order, and each is read with its neighbours around it, as
    `run_ner.py --context=document` does) and `ids`. Outputs: `words`, `tags`
    `[B, W]` string, "" after the last, and `probabilities` `[B, W]` float32 of
    those tags. For `ids` `[B, T]`: `tags` and `probabilities` of each token.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        labels: in the order of the model's outputs.
        max_seq_length: word pieces of a window.
    """
    sentence = ner.WindowOptions(
        max_seq_length=max_seq_length, context=ner.SENTENCE
    )
    document = dataclasses.replace(sentence, context=ner.DOCUMENT)
    tagger = _Tagger(model, tokenizer, labels)
    text = signatures.of_texts
    return signatures.Servable(
        task=TASK,
        signatures={
            signatures.DEFAULT: text(
                lambda text: tagger.of_text(text, sentence), "text"
            ),
            WORDS: signatures.of_words(
                lambda words: tagger.of_words(words, sentence)
            ),
            DOCUMENT: text(lambda text: tagger.of_text(text, document), "text"),
            signatures.IDS: signatures.of_ids(tagger.of_ids),
        },
        variables=tagger.net.variables,
        details={"labels": list(labels), "max_seq_length": max_seq_length},
    )


class _Tagger:
    """Tags the words of B sentences at once."""

    def __init__(
        self, model, tokenizer: graph_tokenizer.GraphTokenizer, labels
    ):
        self.net = network.Network(model, lambda outputs: outputs["logits"])
        self._tokenizer = tokenizer
        self._labels = labels
        self._longest = model.config.max_position_embeddings

    def of_text(self, text, options: ner.WindowOptions):
        # Decoded first: a word of invalid bytes alone is none.
        return self._tag(
            tf.strings.split(normalization.drop_invalid_utf8(text)), options
        )

    def of_words(self, words, options: ner.WindowOptions):
        # An empty word between others is one, as in a file.
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        decoded = rows.with_values(normalization.drop_invalid_utf8(rows.values))
        return self._tag(decoded, options)

    def of_ids(self, *ids):
        rows = inputs.of_client(*ids, self._longest)
        return _best(self.net(rows), self._labels)

    def _tag(self, words, options: ner.WindowOptions):
        """Tags `[B, (words)]` string."""
        pieces = _pieces(words.values, self._tokenizer, options.room)
        cut = tag_windows.cut(pieces, words.row_lengths(), options)
        rows = inputs.joined(
            cut.tokens, inputs.no_tokens(cut.tokens), self._tokenizer.special
        )
        places = tf.stack([cut.window_of_word, cut.place_of_word], axis=1)
        logits = tf.gather_nd(self.net(rows), places)  # [words, K]
        found = _best(logits, self._labels)
        return {
            "words": words.to_tensor(),
            **{k: words.with_values(x).to_tensor() for k, x in found.items()},
        }


def _pieces(
    words, tokenizer: graph_tokenizer.GraphTokenizer, room: int
) -> tf.RaggedTensor:
    """Cuts `[W]` words into pieces as `ner.make_windows` does.

    Returns:
        `[W, (pieces)]` int32, of each word at least one and at most `room`.
    """
    pieces = tokenizer.tokenize(words)[:, :room]
    is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(is_empty)], tokenizer.id_of("[UNK]")),
        is_empty,
        validate=False,
    )
    return tf.concat([pieces, unknown], axis=1)


def _best(logits, labels: Sequence[str]):
    """Names the best of `[..., K]` logits, and its probability: `[...]`."""
    probs = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1)
    return {
        "tags": tf.gather(tf.constant(labels), best),
        "probabilities": tf.reduce_max(probs, axis=-1),
    }
