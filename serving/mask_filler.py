"""The words that a pre-trained model puts in place of each [MASK]."""

import tensorflow as tf

from modeling import heads
from serving import inputs, network, reading, signatures

TASK = "fill_mask"
_MASK = "[MASK]"


def servable(
    model: heads.BertForPreTraining,
    reader: reading.TextReader,
    max_seq_length: int,
    top_k: int,
) -> signatures.Servable:
    """Makes the signatures of a masked language model.

    They are `serving_default` (`text_a` `[B]` string), `pairs` (also
    `text_b`) and `ids`. Outputs, P being the most masks of a row: `tokens`
    `[B, P, k]` string and `probabilities` `[B, P, k]` float32, the most
    probable first, masks from the left; `num_masks` `[B]` int32. Beyond the
    masks of a row stand "" and 0.

    A text that is too long is an error, as for `tools.predict_masked`: what
    was cut might be the mask.

    Args:
        model: in float32.
        reader: of the model's vocabulary.
        max_seq_length: T at most.
        top_k: k; all of the vocabulary if it has fewer words.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """
    reader.definition.require_tokens(_MASK)
    mask_id = reader.id_of(_MASK)
    vocab_size = model.config.vocab_size
    top_k = min(top_k, vocab_size)
    net = network.Network(
        model, lambda outputs: outputs["masked_lm_logits"], num_more=1
    )

    def single(text_a):
        tokens = _tokens_and_masks(text_a, reader, mask_id)
        return run(tokens, inputs.no_tokens(tokens))

    def pairs(text_a, text_b):
        return run(
            *(_tokens_and_masks(t, reader, mask_id) for t in (text_a, text_b))
        )

    def run(tokens_a, tokens_b):
        rows = inputs.joined(tokens_a, tokens_b, reader.special)
        tf.debugging.assert_less_equal(
            tf.shape(rows.input_ids)[1],
            max_seq_length,
            f"A text must have at most {max_seq_length} word pieces with "
            "[CLS] and [SEP]; shorten it",
        )
        return fill(rows)

    def of_ids(*ids):
        return fill(inputs.of_client(*ids, max_seq_length))

    def fill(rows):
        places = _places(rows, mask_id)  # [B, (masks)]
        logits = net(rows, places.to_tensor())  # [B, P, V]
        probs, ids = tf.math.top_k(tf.nn.softmax(logits), top_k)
        is_mask = tf.sequence_mask(places.row_lengths())[..., tf.newaxis]
        tokens = tf.gather(reader.tokens(vocab_size), ids)
        return {
            "tokens": tf.where(is_mask, tokens, ""),
            "probabilities": tf.where(is_mask, probs, 0.0),
            "num_masks": tf.cast(places.row_lengths(), tf.int32),
        }

    return signatures.Servable(
        task=TASK,
        signatures={
            signatures.DEFAULT: signatures.of_texts(single, "text_a"),
            signatures.PAIRS: signatures.of_texts(pairs, "text_a", "text_b"),
            signatures.IDS: signatures.of_ids(of_ids),
        },
        variables=net.variables,
        details={"max_seq_length": max_seq_length, "top_k": top_k},
    )


def _tokens_and_masks(text, reader: reading.TextReader, mask_id: int):
    """Cuts `[B]` texts but keeps each [MASK]: `[B, (tokens)]` int32."""
    # Decoded first: a skipped byte may have stood inside of "[MASK]".
    parts = tf.strings.split(reader.decoded(text), _MASK)  # [B, (parts)]
    tokens = reader.tokenize(parts.values)  # [parts, (tokens)]
    is_later = tf.ragged.range(parts.row_lengths()).values > 0  # [parts]
    counts = tf.cast(is_later, tf.int64)
    masks = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(counts)], mask_id), counts, validate=False
    )
    return parts.with_values(tf.concat([masks, tokens], axis=1)).merge_dims(
        1, 2
    )


def _places(rows: inputs.ModelInputs, mask_id: int) -> tf.RaggedTensor:
    """Finds the masks: `[B, (masks)]` int32."""
    found = tf.where((rows.input_ids == mask_id) & (rows.input_mask > 0))
    return tf.RaggedTensor.from_value_rowids(
        tf.cast(found[:, 1], tf.int32),
        found[:, 0],
        nrows=tf.shape(rows.input_ids, out_type=tf.int64)[0],
        validate=False,
    )
