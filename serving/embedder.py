"""Embeddings of raw text: the hidden layers of an encoder."""

from collections.abc import Sequence

import tensorflow as tf

from modeling import bert
from serving import graph_tokenizer, inputs, run_folder, signatures
from tasks import features
from tasks.classification import sentence_pairs

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
    `text_b`), `ids` and `vectors`, which is `serving_default` without the
    outputs of T positions. Outputs, for the L chosen layers:

    - `tokens` `[B, T]` string, "" after the last; `input_mask` `[B, T]` int32;
    - `sequence_output` `[B, T, D]` float32, the last layer;
    - `layers` `[B, T, L, D]` float32, as `extract_features.py` writes them;
    - `mean` `[B, L, D]` float32, of all tokens, including [CLS] and [SEP];
    - `pooled_output` `[B, D]` float32, if the model has it.

    Values at padding are 0.

    Args:
        model: in float32.
        tokenizer: of the model's vocabulary.
        packing: how texts are truncated; not `windows`.
        layers: numbers, 0 for the lowest and -1 for the highest.
        has_pooler: whether the pooler was trained.

    Raises:
        ValueError: the model lacks a layer, or texts are split into windows.
    """
    features.check_layers(layers, model.config.num_hidden_layers)
    if packing.long_text == sentence_pairs.WINDOWS:
        raise ValueError(
            "A text must have one row to be embedded; long_text windows makes "
            "several. Choose head or head_tail."
        )
    encoder = _Encoder(model, tokenizer, packing, layers, has_pooler)
    tokenize, encode = tokenizer.tokenize, encoder.of_tokens
    longest = model.config.max_position_embeddings
    return signatures.Servable(
        task=run_folder.EMBED,
        signatures={
            signatures.DEFAULT: signatures.of_single_texts(tokenize, encode),
            signatures.PAIRS: signatures.of_pairs(tokenize, encode),
            VECTORS: signatures.of_single_texts(tokenize, encoder.vectors),
            signatures.IDS: signatures.of_ids(encoder.of_rows, longest),
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
        kept = ["sequence_output", *(["pooled_output"] if has_pooler else [])]

        def chosen(outputs):
            every = outputs["all_encoder_layers"]
            stacked = tf.stack([every[layer] for layer in layers], axis=2)
            return {"layers": stacked, **{name: outputs[name] for name in kept}}

        self.net = signatures.Network(model, chosen)
        self._vocab_size = model.config.vocab_size
        self._tokenizer = tokenizer
        self._packing = packing

    def of_tokens(self, tokens_a, tokens_b):
        rows = self._rows(tokens_a, tokens_b)
        names = self._tokenizer.tokens(self._vocab_size)
        names = tf.where(
            rows.input_mask > 0, tf.gather(names, rows.input_ids), ""
        )
        return {"tokens": names, **self.of_rows(rows)}

    def vectors(self, tokens_a, tokens_b):
        found = self.of_rows(self._rows(tokens_a, tokens_b))
        return {k: found[k] for k in ("mean", "pooled_output") if k in found}

    def _rows(self, tokens_a, tokens_b):
        fitted = inputs.fit(tokens_a, tokens_b, self._packing)
        return fitted.rows(self._tokenizer.special)

    def of_rows(self, rows: inputs.ModelInputs):
        """Sets values at padding to 0 and averages tokens."""
        outputs = self.net(rows)
        is_token = tf.cast(rows.input_mask > 0, tf.float32)
        is_token = is_token[..., tf.newaxis]  # [B, T, 1]
        layers = outputs.pop("layers") * is_token[..., tf.newaxis]
        sums = tf.reduce_sum(layers, axis=1)  # [B, L, D]
        counts = tf.reduce_sum(is_token, axis=1)[..., tf.newaxis]  # [B, 1, 1]
        return {
            "input_mask": rows.input_mask,
            "layers": layers,  # [B, T, L, D]
            "sequence_output": outputs.pop("sequence_output") * is_token,
            "mean": tf.math.divide_no_nan(sums, counts),
            **outputs,
        }
