"""BERT: a bidirectional Transformer encoder over word pieces."""

from typing import Any

import keras
from keras import ops

from modeling import config as config_lib
from modeling import kernels, layers


class BertModel(keras.Model):
    """Encodes sequences of word pieces.

    Source: Devlin et al. 2019, §3. Its variables exist once it is made.

    Args:
        config: the network's sizes.
        causal: left-to-right attention (Devlin et al. 2019, §5.1, "LTR").
        name: of the model; the first part of its variables' paths.
        dtype: Keras policy or its name; the global one if None.

    Call arguments:
        input_ids: `[B, T]` int32.
        input_mask: `[B, T]` int32, 1 for a token, 0 for padding; ones if None.
        segment_ids: `[B, T]` int32; zeros if None.
        dropout_seed: `[2]` int32, of which all dropout is a pure function, or
            None for no dropout (evaluation).

    Returns:
        A dict: `embedding_output` `[B, T, D]`, `all_encoder_layers` (a list of
        `[B, T, D]`), `sequence_output` `[B, T, D]`, the last of them, and
        `pooled_output` `[B, D]`.

    Raises:
        ValueError: T is more than `max_position_embeddings`.
    """

    # What the release calls the scope of these variables, whatever our name.
    release_scope = "bert"

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        causal: bool = False,
        name: str = "bert",
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.causal = causal
        policy = self.dtype_policy
        self.embeddings = layers.Embeddings(config, dtype=policy)
        self.encoder = layers.Encoder(config, dtype=policy)
        self.pooler = layers.Transform(
            (config.hidden_size, config.hidden_size),
            config,
            name="pooler",
            activation="tanh",
            dtype=policy,
        )
        self.build()

    def build(self, input_shape=None):
        self.embeddings.build()
        self.encoder.build()
        self.pooler.build()

    @property
    def word_embeddings(self):
        """The table of word embeddings, `[V, D]` float32, for tying."""
        return self.embeddings.word_embeddings

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        if input_mask is None:
            input_mask = ops.ones_like(input_ids)
        if segment_ids is None:
            segment_ids = ops.zeros_like(input_ids)
        embedding_output = self.embeddings(
            input_ids, segment_ids, dropout_seed=dropout_seed
        )
        adder = kernels.attention_adder(input_mask, causal=self.causal)
        all_layers = self.encoder(
            embedding_output, adder, dropout_seed=dropout_seed
        )
        return {
            "embedding_output": embedding_output,
            "all_encoder_layers": all_layers,
            "sequence_output": all_layers[-1],
            "pooled_output": self.pooler(all_layers[-1][:, 0]),  # [B, D]
        }

    def attention_probs(
        self, input_ids: Any, input_mask: Any = None, segment_ids: Any = None
    ) -> list[Any]:
        """Computes where each layer looks, without dropout.

        Args:
            input_ids: `[B, T]` int32.
            input_mask: as in the call.
            segment_ids: as in the call.

        Returns:
            For each layer `[B, N, T, S]`, which sums to 1 over S.
        """
        input_ids = ops.convert_to_tensor(input_ids)
        if input_mask is None:
            input_mask = ops.ones_like(input_ids)
        outputs = self(input_ids, input_mask, segment_ids)
        inputs = [
            outputs["embedding_output"],
            *outputs["all_encoder_layers"][:-1],
        ]
        adder = kernels.attention_adder(input_mask, causal=self.causal)
        return [
            layer.attention.gather.probs(hidden, adder)
            for layer, hidden in zip(self.encoder.stack, inputs, strict=True)
        ]
