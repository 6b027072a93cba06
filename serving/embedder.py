"""Embeddings of raw text: the hidden layers of an encoder."""

from collections.abc import Sequence

import tensorflow as tf

from modeling import bert
from serving import graph_tokenizer, inputs, signatures
from tasks import features
from tasks.classification import sentence_pairs

TASK = "embed"
VECTORS = "vectors"


def servable(
    model: bert.BertModel,
    tokenizer: graph_tokenizer.GraphTokenizer,
    packing: sentence_pairs.Packing,
    layers: Sequence[int],
    *,
    has_pooler: bool = True,
) -> signatures.Servable:
    """Makes the signatures of an encoder.

    They are `serving_default` (`text_a` `[B]` string), `pairs` (also
    `text_b`), `ids` and `vectors`, which is `serving_default` without what
    has T places. Outputs, for the `L` layers that are asked for:

    - `tokens` `[B, T]` string, "" after the last; `input_mask` `[B, T]` int32;
    - `sequence_output` `[B, T, D]` float32, the last layer;
    - `layers` `[B, T, L, D]` float32, as `extract_features.py` writes them;
    - `mean` `[B, L, D]` float32, of all tokens, [CLS] and [SEP] among them;
    - `pooled_output` `[B, D]` float32, if the model has it.

    What stands at padding is 0.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        packing: how texts are fitted into a row; not `windows`.
        layers: numbers, 0 for the lowest and -1 for the highest.
        has_pooler: whether the pooler was trained.

    Raises:
        ValueError: the model lacks a layer, or texts are cut into windows.
    """
    features.check_layers(layers, model.config.num_hidden_layers)
    if packing.long_text == sentence_pairs.WINDOWS:
        raise ValueError(
            "A text must have one row to be embedded; long_text windows makes "
            "several. Choose head or head_tail."
        )

    encoder = _Encoder(model, tokenizer, packing, layers, has_pooler)
    text = signatures.of_texts
    return signatures.Servable(
        task=TASK,
        signatures={
            signatures.DEFAULT: text(encoder.of_text, "text_a"),
            signatures.PAIRS: text(encoder.of_pairs, "text_a", "text_b"),
            VECTORS: text(encoder.vectors, "text_a"),
            signatures.IDS: signatures.of_ids(encoder.of_ids),
        },
        variables=encoder.net.variables,
        details={
            "max_seq_length": packing.max_seq_length,
            "long_text": packing.long_text,
            "layers": list(layers),
            "hidden_size": model.config.hidden_size,
        },
    )


class _Encoder:
    """Encodes B texts at once."""

    def __init__(self, model, tokenizer, packing, layers, has_pooler: bool):
        def chosen(outputs):
            every = outputs["all_encoder_layers"]
            kept = {
                "layers": tf.stack([every[layer] for layer in layers], axis=2),
                "sequence_output": outputs["sequence_output"],
            }
            if has_pooler:
                kept["pooled_output"] = outputs["pooled_output"]
            return kept

        self.net = signatures.Network(model, chosen)
        self._config = model.config
        self._tokenizer = tokenizer
        self._packing = packing

    def of_text(self, text_a):
        return self._with_tokens(self._single(text_a))

    def of_pairs(self, text_a, text_b):
        tokenize = self._tokenizer.tokenize
        return self._with_tokens(
            self._laid_out(tokenize(text_a), tokenize(text_b))
        )

    def of_ids(self, input_ids, input_mask, segment_ids):
        longest = self._config.max_position_embeddings
        return self._encode(
            inputs.of_client(input_ids, input_mask, segment_ids, longest)
        )

    def vectors(self, text_a):
        found = self._encode(self._single(text_a))
        return {k: found[k] for k in ("mean", "pooled_output") if k in found}

    def _single(self, text):
        tokens = self._tokenizer.tokenize(text)
        return self._laid_out(tokens, inputs.no_tokens(tokens))

    def _laid_out(self, tokens_a, tokens_b):
        fitted = inputs.fit(tokens_a, tokens_b, self._packing)
        return inputs.joined(
            fitted.tokens_a, fitted.tokens_b, self._tokenizer.special
        )

    def _with_tokens(self, rows: inputs.ModelInputs):
        names = self._tokenizer.tokens(self._config.vocab_size)
        tokens = tf.where(
            rows.input_mask > 0, tf.gather(names, rows.input_ids), ""
        )
        return {"tokens": tokens, **self._encode(rows)}

    def _encode(self, rows: inputs.ModelInputs):
        return _vectors(self.net(rows), rows.input_mask)


def _vectors(outputs, input_mask):
    """Clears padding and averages tokens.

    Args:
        outputs: of the network, for `[B, T]` tokens.
        input_mask: `[B, T]` int32.
    """
    is_token = tf.cast(input_mask > 0, tf.float32)[..., tf.newaxis]  # [B, T, 1]
    layers = outputs["layers"] * is_token[..., tf.newaxis]  # [B, T, L, D]
    counts = tf.reduce_sum(is_token, axis=1)[..., tf.newaxis]  # [B, 1, 1]
    found = {
        "input_mask": input_mask,
        "layers": layers,
        "sequence_output": outputs["sequence_output"] * is_token,
        "mean": tf.math.divide_no_nan(tf.reduce_sum(layers, axis=1), counts),
    }
    if "pooled_output" in outputs:
        found["pooled_output"] = outputs["pooled_output"]
    return found
