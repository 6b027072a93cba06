"""BERT: a bidirectional Transformer encoder over word pieces."""

import keras
from keras import ops

from modeling import compilation, layers, name_tables, packing
from modeling import config as config_lib
from modeling.compilation import Policy, Tensor


class Embeddings(layers.BertLayer):
    """The sum of word, segment and position embeddings, normalized.

    Source: Devlin et al. 2019, §3 and fig. 2.

    Args:
        config: the network's sizes.

    Call arguments:
        input_ids: `[B, T]` int, in [0, V).
        segment_ids: `[B, T]` int; one outside the table adds nothing.
        dropout_seed: `[2]` int32, or None for no dropout.
        positions: `[B, T]` int, in [0, `max_position_embeddings`); 0 to T - 1
            in each row if None.

    Returns:
        `[B, T, D]`, of the policy's compute type.

    Raises:
        ValueError: T is more than `max_position_embeddings`.
    """

    def __init__(self, config: config_lib.BertConfig):
        super().__init__(name="embeddings")
        self.config = config
        self.norm = layers.LayerNorm(config.hidden_size)

    def build(self, input_shape=None):
        config = self.config
        self.word_embeddings = self._add_table(
            "word_embeddings", config.vocab_size
        )
        self.token_type_embeddings = self._add_table(
            "token_type_embeddings", config.type_vocab_size
        )
        self.position_embeddings = self._add_table(
            "position_embeddings", config.max_position_embeddings
        )
        self.norm.build()

    def _add_table(self, name, num_rows):
        return self.add_variable(
            name,
            (num_rows, self.config.hidden_size),
            layers.truncated_normal(self.config.initializer_range),
        )

    def call(self, input_ids, segment_ids, dropout_seed=None, positions=None):
        config = self.config
        length = input_ids.shape[1]
        if length is not None and length > config.max_position_embeddings:
            raise ValueError(
                "A sequence must be at most max_position_embeddings "
                f"({config.max_position_embeddings}) long; got {length}."
            )
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, T, D]
        # As released: a product, so that an id outside the table adds zero.
        segments = ops.matmul(
            ops.one_hot(segment_ids, config.type_vocab_size),  # [B, T, types]
            self.token_type_embeddings,
        )  # [B, T, D]
        if positions is None:
            length = ops.shape(input_ids)[1]
            places = self.position_embeddings[:length]  # [T, D]
        else:
            places = ops.take(self.position_embeddings, positions, axis=0)
        summed = self.norm(words + segments + places)
        summed = ops.cast(summed, self.compute_dtype)
        return layers.dropped(
            summed, config.hidden_dropout_prob, dropout_seed, 0
        )


class Encoder(layers.BertLayer):
    """A stack of Transformer layers.

    Args:
        config: the network's sizes.

    Call arguments:
        hidden, adder, dropout_seed: as for `layers.SelfAttention`.
        first_only: as for `BertModel`.
        packed_rows: the `packing.Packing` of `hidden`, or None.

    Returns:
        The output of every layer, each `[B, T, D]` for B unpacked texts; with
        `first_only` that of the last is `[B, 1, D]`.

    Attributes:
        recompute: gradient checkpointing: each layer keeps only its output.
    """

    def __init__(self, config: config_lib.BertConfig):
        super().__init__(name="encoder")
        self.recompute = False
        self.stack = [
            layers.TransformerLayer(config, index)
            for index in range(config.num_hidden_layers)
        ]

    def call(
        self,
        hidden,
        adder,
        dropout_seed=None,
        first_only=False,
        packed_rows=None,
    ):
        # Nothing is reshaped between the matrix products, so that TensorFlow
        # can fuse them with the following operations.
        shape = ops.shape(hidden)
        hidden = ops.reshape(hidden, (-1, hidden.shape[-1]))  # [B * T, D]
        outputs = []
        others = {"adder": adder, "dropout_seed": dropout_seed}

        def unpacked(hidden):
            if packed_rows is None:
                return ops.reshape(hidden, shape)
            return packed_rows.unpacked(hidden)

        for layer in self.stack[:-1] if first_only else self.stack:
            hidden = (
                compilation.recomputed(layer, hidden, **others)
                if self.recompute
                else layer(hidden, **others)
            )
            outputs.append(unpacked(hidden))
        if first_only:
            if packed_rows is None:
                others["first"] = ops.reshape(hidden, shape)[:, 0]  # [B, D]
            else:
                others["rows"] = packed_rows.places[:, 0]  # [B]
            last = self.stack[-1](hidden, **others)  # [B, D]
            outputs.append(last[:, None])
        return outputs


class BertModel(keras.Model):
    """The encoder of sequences of word pieces.

    Source: Devlin et al. 2019, §3. The constructor creates its variables.

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
        first_only: compute the last layer only at the first position, [CLS];
            its output is then `[B, 1, D]`. It must not be used with causal
            attention.
        packed: `[R, T]` int32, from `packing.pack`, to compute the texts in
            these rows; None to compute the batch as it is. Outputs are those of
            the texts, except that those of padding are 0.

    Returns:
        A dict: `embedding_output` `[B, T, D]`, `all_encoder_layers` (a list of
        `[B, T, D]`), `sequence_output` `[B, T, D]`, the last of them, and
        `pooled_output` `[B, D]`.

    Attributes:
        optional_variables: patterns of variables that a checkpoint may lack.

    Raises:
        ValueError: T is more than `max_position_embeddings`.
    """

    # The release's scope of these variables, whatever the model's name.
    release_scope = "bert"
    # The hidden layers do not depend on it.
    optional_variables = (name_tables.POOLER,)

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        causal: bool = False,
        name: str = "bert",
        dtype: Policy = None,
    ):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.causal = causal
        with layers.with_policy(self.dtype_policy):
            self.embeddings = Embeddings(config)
            self.encoder = Encoder(config)
            self.pooler = layers.Transform(
                config, config.hidden_size, name="pooler", activation="tanh"
            )
        self.build()

    def build(self, input_shape=None):
        self.embeddings.build()
        self.encoder.build()
        self.pooler.build()

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        dropout_seed=None,
        first_only=False,
        packed=None,
    ):
        if input_mask is None:
            input_mask = ops.ones_like(input_ids)
        if segment_ids is None:
            segment_ids = ops.zeros_like(input_ids)
        packed_rows = positions = None
        if packed is None:
            adder = layers.adder_of(input_mask, causal=self.causal)
        else:
            packed_rows = packing.Packing(packed, ops.shape(input_ids)[0])
            input_ids, segment_ids = map(
                packed_rows.packed, (input_ids, segment_ids)
            )
            positions = packed_rows.positions
            adder = layers.adder_between(packed_rows.texts, causal=self.causal)
        embedding_output = self.embeddings(
            input_ids,
            segment_ids,
            dropout_seed=dropout_seed,
            positions=positions,
        )
        all_layers = self.encoder(
            embedding_output,
            adder,
            dropout_seed=dropout_seed,
            first_only=first_only,
            packed_rows=packed_rows,
        )
        if packed_rows is not None:
            embedding_output = packed_rows.unpacked(embedding_output)
        return {
            "embedding_output": embedding_output,
            "all_encoder_layers": all_layers,
            "sequence_output": all_layers[-1],
            "pooled_output": self.pooler(all_layers[-1][:, 0]),  # [B, D]
        }

    def attention_probs(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """Computes the attention probabilities of each layer, without dropout.

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
        adder = layers.adder_of(input_mask, causal=self.causal)
        return [
            layer.attention.self_attention.probs(hidden, adder)
            for layer, hidden in zip(self.encoder.stack, inputs, strict=True)
        ]
