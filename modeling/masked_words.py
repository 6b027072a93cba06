"""The masked language model: from hidden states to words."""

from typing import Any

from keras import ops

from modeling import config as config_lib
from modeling import layers, losses


class MaskedLanguageModel(layers.BertLayer):
    """Scores words of the vocabulary at the masked positions.

    Source: Devlin et al. 2019, §3.1 Task #1.

    Args:
        config: the network's sizes.
        dtype: Keras policy or its name.

    Call arguments:
        sequence_output: `[B, T, D]` float.
        positions: `[B, P]` int, in [0, T).
        word_embeddings: `[V, D]` float, which the logits are tied to.
        ids: `[B, P]` int, in [0, V), or None.

    Returns:
        `[B, P, V]` float32 logits. Where `ids` are given, what training wants
        of them instead: the cross entropy of the ids, and 1 where the id is
        the best word, each `[B, P]` float32.
    """

    def __init__(self, config: config_lib.BertConfig, *, dtype: Any = None):
        super().__init__(name="predictions", dtype=dtype)
        self.config = config
        self.transform = MaskedTransform(config, dtype=dtype)

    def build(self, input_shape=None):
        self.transform.build()
        self.output_bias = self.add_variable(
            "output_bias", (self.config.vocab_size,), "zeros"
        )

    def call(self, sequence_output, positions, word_embeddings, ids=None):
        hidden = self.transform(_gather_positions(sequence_output, positions))
        if ids is None:
            return losses.tied_logits(hidden, word_embeddings, self.output_bias)
        rows = ops.reshape(hidden, (-1, self.config.hidden_size))  # [B * P, D]
        parts = losses.fused_tied_cross_entropy(
            rows, word_embeddings, self.output_bias, ops.reshape(ids, (-1,))
        )
        return tuple(ops.reshape(part, ops.shape(ids)) for part in parts)


class MaskedTransform(layers.Transform):
    """A `layers.Transform` from D to D, normalised after its activation."""

    def __init__(self, config: config_lib.BertConfig, *, dtype: Any = None):
        sizes = (config.hidden_size, config.hidden_size)
        super().__init__(sizes, config, name="transform", dtype=dtype)
        self.norm = layers.LayerNorm(config.hidden_size, dtype=dtype)

    def build(self, input_shape=None):
        self.dense.build()
        self.norm.build()

    def call(self, x):
        return self.norm(super().call(x))


def _gather_positions(sequence: Any, positions: Any) -> Any:
    """Picks `[B, P, D]` from `[B, T, D]` at positions `[B, P]`."""
    batch, length, size = ops.shape(sequence)
    rows = ops.reshape(sequence, (batch * length, size))  # [B * T, D]
    firsts = ops.cast(ops.arange(batch) * length, positions.dtype)  # [B]
    return ops.take(rows, positions + firsts[:, None], axis=0)
