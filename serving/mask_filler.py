"""Masked language modeling on raw text: words in place of each [MASK]."""

import tensorflow as tf

from modeling import heads
from serving import (
    graph_tokenizer,
    inputs,
    normalization,
    run_folder,
    signatures,
)

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
    probable first, masks from the left; `num_masks` `[B]` int32. Rows with
    fewer masks are filled with "" and 0.

    A text that is too long is an error, as for `tools.predict_masked`:
    truncation could remove a mask.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        max_seq_length: the limit of T.
        top_k: k; all of the vocabulary if it has fewer words.

    Raises:
        ValueError: the vocabulary has no [MASK].
    """
    tokenizer.definition.require_tokens(_MASK)
    top_k = min(top_k, model.config.vocab_size)
    filler = _MaskFiller(model, tokenizer, max_seq_length, top_k)
    tokenize, fill = filler.tokenize, filler.of_tokens
    return signatures.Servable(
        task=run_folder.FILL_MASK,
        signatures={
            signatures.DEFAULT: signatures.of_single_texts(tokenize, fill),
            signatures.PAIRS: signatures.of_pairs(tokenize, fill),
            signatures.IDS: signatures.of_ids(filler.of_rows, max_seq_length),
        },
        variables=filler.net.variables,
        details={"max_seq_length": max_seq_length, "top_k": top_k},
    )


class _MaskFiller:
    """Fills the masks of B texts at once."""

    def __init__(self, model, tokenizer, max_seq_length: int, top_k: int):
        self.net = signatures.Network(
            model, lambda outputs: outputs["masked_lm_logits"], num_more=1
        )
        self._top_k = top_k
        self._tokenizer = tokenizer
        self._mask_id = tokenizer.id_of(_MASK)
        self._vocab_size = model.config.vocab_size
        self._max_seq_length = max_seq_length

    def tokenize(self, text):
        """Splits `[B]` texts but keeps each [MASK]: `[B, (tokens)]` int32."""
        # Decoded first: there may be an invalid byte inside of "[MASK]".
        parts = tf.strings.split(
            normalization.drop_invalid_utf8(text), _MASK
        )  # [B, (parts)]
        tokens = self._tokenizer.tokenize(parts.values)  # [parts, (tokens)]
        is_later = tf.ragged.range(parts.row_lengths()).values > 0  # [parts]
        masks = inputs.repeated(self._mask_id, tf.cast(is_later, tf.int64))
        tokens = tf.concat([masks, tokens], axis=1)
        return parts.with_values(tokens).merge_dims(1, 2)

    def of_tokens(self, tokens_a, tokens_b):
        rows = inputs.joined(tokens_a, tokens_b, self._tokenizer.special)
        tf.debugging.assert_less_equal(
            tf.shape(rows.input_ids)[1],
            self._max_seq_length,
            f"A text must have at most {self._max_seq_length} word pieces "
            "with [CLS] and [SEP]; shorten it",
        )
        return self.of_rows(rows)

    def of_rows(self, rows: inputs.ModelInputs):
        is_mask = (rows.input_ids == self._mask_id) & (rows.input_mask > 0)
        found = tf.where(is_mask)  # [masks, 2]
        places = tf.RaggedTensor.from_value_rowids(
            tf.cast(found[:, 1], tf.int32),
            found[:, 0],
            nrows=tf.shape(rows.input_ids, out_type=tf.int64)[0],
            validate=False,
        )  # [B, (masks)]
        logits = self.net(rows, places.to_tensor())  # [B, P, V]
        # Of equal ones, the first in the vocabulary is first.
        probs, ids = tf.math.top_k(tf.nn.softmax(logits), self._top_k)
        is_given = tf.sequence_mask(places.row_lengths())[..., tf.newaxis]
        tokens = tf.gather(self._tokenizer.tokens(self._vocab_size), ids)
        return {
            "tokens": tf.where(is_given, tokens, ""),
            "probabilities": tf.where(is_given, probs, 0.0),
            "num_masks": tf.cast(places.row_lengths(), tf.int32),
        }
