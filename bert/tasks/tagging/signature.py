"""Signatures of an exported tagger: sentences, ids."""

import tensorflow as tf

from bert.tasks import asking, signatures, token_rows
from bert.tasks.tagging import asking as tagging
from vocab import graph_tokenizer


def make(
    model: tagging.Tagging,
    compute: asking.Compute,
    tokenizer: graph_tokenizer.GraphTokenizer,
) -> asking.Signatures:
    """Makes the signatures; see `asking.Asking.signatures`."""
    names = tf.constant(model.names)  # [K]
    unknown = tokenizer.id_of("[UNK]")
    longest = model.model.max_seq_length

    def best(probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
        return {
            "tags": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "probabilities": tf.reduce_max(probabilities, axis=-1),
        }

    @signatures.text_signature(text=signatures.TEXTS)
    def tags(text: tf.Tensor) -> signatures.Tensors:
        # Only ASCII white space splits; invalid bytes alone are no word.
        words = tf.strings.split(graph_tokenizer.drop_invalid_utf8(text))
        pieces = tokenizer.tokenize(words.values)  # [W, (pieces)]
        is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
        pieces = tf.concat(
            [pieces, token_rows.repeat(unknown, is_empty)], axis=1
        )
        tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
        rows = token_rows.join(tokens, tokens[:, :0], tokenizer)
        tf.debugging.assert_less_equal(
            tf.shape(rows["input_ids"])[1],
            longest,
            f"A sentence must have at most {longest} word pieces with [CLS] "
            "and [SEP]",
        )
        sentence = words.value_rowids()  # [W]
        # The label of a word is that of its first piece, after [CLS].
        first = pieces.row_starts() - tf.gather(tokens.row_starts(), sentence)
        place = tf.stack([sentence, 1 + first], axis=1)
        labels = best(tf.gather_nd(compute(**rows)["probabilities"], place))
        return {
            "words": words.to_tensor(),
            **{k: words.with_values(v).to_tensor() for k, v in labels.items()},
        }

    def of_rows(**rows: tf.Tensor) -> signatures.Tensors:
        return best(compute(**rows)["probabilities"])

    return {
        signatures.DEFAULT: tags,
        signatures.IDS: signatures.of_ids(of_rows, model),
    }
