"""Masked language modeling on raw text: words in place of each [MASK]."""

import tensorflow as tf

from modeling import heads
from serving import graph_tokenizer, inputs, normalization, signatures

TASK = "fill_mask"
_MASK = "[MASK]"


def servable(
    model: heads.BertForPreTraining,
    tokenizer: graph_tokenizer.GraphTokenizer,
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
        tokenizer: of the model's vocabulary.
        max_seq_length: T at most.
        top_k: k; all of the vocabulary if it has fewer words.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """
    tokenizer.definition.require_tokens(_MASK)
    filler = _MaskFiller(
        model, tokenizer, max_seq_length, min(top_k, model.config.vocab_size)
    )
    return signatures.Servable(
        task=TASK,
        signatures={
            signatures.DEFAULT: signatures.of_texts(filler.of_text, "text_a"),
            signatures.PAIRS: signatures.of_texts(
                filler.of_pairs, "text_a", "text_b"
            ),
            signatures.IDS: signatures.of_ids(filler.of_ids),
        },
        variables=filler.net.variables,
        details={"max_seq_length": max_seq_length, "top_k": filler.top_k},
    )


class _MaskFiller:
    """Fills the masks of B texts at once."""

    def __init__(self, model, tokenizer, max_seq_length: int, top_k: int):
        self.net = signatures.Network(
            model, lambda outputs: outputs["masked_lm_logits"], num_more=1
        )
        self.top_k = top_k
        self._tokenizer = tokenizer
        self._mask_id = tokenizer.id_of(_MASK)
        self._vocab_size = model.config.vocab_size
        self._max_seq_length = max_seq_length

    def of_text(self, text_a):
        tokens = _tokens_and_masks(text_a, self._tokenizer, self._mask_id)
        return self._of_tokens(tokens, inputs.no_tokens(tokens))

    def of_pairs(self, *texts):
        return self._of_tokens(
            *(
                _tokens_and_masks(t, self._tokenizer, self._mask_id)
                for t in texts
            )
        )

    def of_ids(self, input_ids, input_mask, segment_ids):
        longest = self._max_seq_length
        return self._fill(
            inputs.of_client(input_ids, input_mask, segment_ids, longest)
        )

    def _of_tokens(self, tokens_a, tokens_b):
        rows = inputs.joined(tokens_a, tokens_b, self._tokenizer.special)
        tf.debugging.assert_less_equal(
            tf.shape(rows.input_ids)[1],
            self._max_seq_length,
            f"A text must have at most {self._max_seq_length} word pieces "
            "with [CLS] and [SEP]; shorten it",
        )
        return self._fill(rows)

    def _fill(self, rows: inputs.ModelInputs):
        places = _places(rows, self._mask_id)  # [B, (masks)]
        logits = self.net(rows, places.to_tensor())  # [B, P, V]
        # Of equals the first of the vocabulary comes first.
        probs, ids = tf.math.top_k(tf.nn.softmax(logits), self.top_k)
        is_mask = tf.sequence_mask(places.row_lengths())[..., tf.newaxis]
        tokens = tf.gather(self._tokenizer.tokens(self._vocab_size), ids)
        return {
            "tokens": tf.where(is_mask, tokens, ""),
            "probabilities": tf.where(is_mask, probs, 0.0),
            "num_masks": tf.cast(places.row_lengths(), tf.int32),
        }


def _tokens_and_masks(
    text, tokenizer: graph_tokenizer.GraphTokenizer, mask_id: int
):
    """Cuts `[B]` texts but keeps each [MASK]: `[B, (tokens)]` int32."""
    # Decoded first: a skipped byte may have stood inside of "[MASK]".
    parts = tf.strings.split(
        normalization.drop_invalid_utf8(text), _MASK
    )  # [B, (parts)]
    tokens = tokenizer.tokenize(parts.values)  # [parts, (tokens)]
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
