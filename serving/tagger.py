"""A tag for each word of a sentence."""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from modeling import tagging
from serving import inputs, network, reading, signatures, tag_windows
from tasks import ner

TASK = "tag"
WORDS = "words"
DOCUMENT = "document"


def servable(
    model: tagging.BertForTokenClassification,
    reader: reading.TextReader,
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
        reader: of the model's vocabulary.
        labels: in the order of the model's outputs.
        max_seq_length: word pieces of a window.
    """
    sentences = ner.WindowOptions(
        max_seq_length=max_seq_length, context=ner.SENTENCE
    )
    document = dataclasses.replace(sentences, context=ner.DOCUMENT)
    net = network.Network(model, lambda outputs: outputs["logits"])

    def of_text(text, options=sentences):
        # Decoded first: a word of invalid bytes alone is none.
        return tag(tf.strings.split(reader.decoded(text)), options)

    def of_words(words):
        # An empty word between others is one, as in a file.
        rows = tf.RaggedTensor.from_tensor(words, padding="")
        return tag(rows.with_values(reader.decoded(rows.values)), sentences)

    def tag(words, options):
        pieces = _pieces(words.values, reader, options.room)
        cut = tag_windows.cut(pieces, words.row_lengths(), options)
        rows = inputs.joined(
            cut.tokens, inputs.no_tokens(cut.tokens), reader.special
        )
        places = tf.stack([cut.window_of_word, cut.place_of_word], axis=1)
        logits = tf.gather_nd(net(rows), places)  # [words, K]
        found = _best(logits, labels)
        return {
            "words": words.to_tensor(),
            **{name: words.with_values(x).to_tensor() for name, x in found},
        }

    def of_ids(*ids):
        rows = inputs.of_client(*ids, model.config.max_position_embeddings)
        return dict(_best(net(rows), labels))

    return signatures.Servable(
        task=TASK,
        signatures={
            signatures.DEFAULT: signatures.of_texts(of_text, "text"),
            WORDS: signatures.of_words(of_words),
            DOCUMENT: signatures.of_texts(
                lambda text: of_text(text, document), "text"
            ),
            signatures.IDS: signatures.of_ids(of_ids),
        },
        variables=net.variables,
        details={"labels": list(labels), "max_seq_length": max_seq_length},
    )


def _pieces(words, reader: reading.TextReader, room: int) -> tf.RaggedTensor:
    """Cuts `[W]` words into pieces as `ner.make_windows` does.

    Returns:
        `[W, (pieces)]` int32, of each word at least one and at most `room`.
    """
    pieces = reader.tokenize(words)[:, :room]
    is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(is_empty)], reader.id_of("[UNK]")),
        is_empty,
        validate=False,
    )
    return tf.concat([pieces, unknown], axis=1)


def _best(logits, labels: Sequence[str]):
    """Names the best of `[..., K]` logits, and its probability: `[...]`."""
    probs = tf.nn.softmax(logits)
    best = tf.argmax(logits, axis=-1)
    return (
        ("tags", tf.gather(tf.constant(labels), best)),
        ("probabilities", tf.reduce_max(probs, axis=-1)),
    )
