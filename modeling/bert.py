"""BERT: a bidirectional Transformer encoder over word pieces."""

import functools
import random
from collections.abc import Callable
from typing import Self

import keras
import tensorflow as tf
from keras import ops

from bert.files import json_text
from modeling import config as config_lib
from modeling import dropout, layers, name_tables, packing
from modeling.tensor_types import Policy, Shape, Tensor

_DROPOUT_SITES_PER_LAYER = 3
_FIRST_LAYER_SITE = 1  # 0 is the embeddings'.
# Source: the release; added to the scores of padding.
PADDING_SCORE = -10000.0
# Below every score plus padding, so that exp gives 0; finite, so no NaN.
_HIDDEN_SCORE = -1e30
_MAX_SEED = 2**31 - 1  # The greatest int32.


def num_dropout_sites(config: config_lib.BertConfig) -> int:
    """Counts the dropout sites of an encoder; those of a head come after."""
    inside = _DROPOUT_SITES_PER_LAYER * config.num_hidden_layers
    return _FIRST_LAYER_SITE + inside


class Embeddings(layers.BertLayer):
    """The sum of word, segment and position embeddings, normalized.

    Source: Devlin et al. 2019, §3 and fig. 2.

    Call arguments:
        input_ids: `[B, T]` int, in [0, V).
        segment_ids: `[B, T]` int; one outside the table adds nothing.
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

    def build(self, input_shape: Shape = None) -> None:
        for name, num_rows in (
            ("word", self.config.vocab_size),
            ("token_type", self.config.type_vocab_size),
            ("position", self.config.max_position_embeddings),
        ):
            table = layers.add_variable(
                self,
                f"{name}_embeddings",
                (num_rows, self.config.hidden_size),
                layers.truncated_normal(self.config.initializer_range),
            )
            setattr(self, f"{name}_embeddings", table)
        self.norm.build()

    def call(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        dropout_seed: Tensor | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
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
            absolute = self.position_embeddings[: ops.shape(input_ids)[1]]
        else:
            absolute = ops.take(self.position_embeddings, positions, axis=0)
        summed = self.norm(words + segments + absolute)
        return dropout.dropout(
            tf.cast(summed, self.compute_dtype),
            config.hidden_dropout_prob,
            dropout.site_seed(dropout_seed, 0),
        )


def attention_bias_of(input_mask: Tensor, *, causal: bool) -> Tensor:
    """Builds the term that is added to attention scores to hide positions.

    As released: padding gets -10000 rather than minus infinity, so a row
    without tokens attends equally to all of its padding. A causal mask excludes
    later positions completely.

    Args:
        input_mask: `[B, T]`, 1 for a token, 0 for padding.
        causal: each position attends only to itself and those before it.

    Returns:
        `[B, 1, 1, S]`, or `[B, 1, T, S]` if causal; float32.
    """
    padding = 1.0 - tf.cast(input_mask, tf.float32)
    # A slice `[:, None, None]` would not do: those of LiteRT add no axes.
    bias = ops.expand_dims(padding, (1, 2)) * PADDING_SCORE  # [B, 1, 1, S]
    if not causal:
        return bias
    is_future = _is_future(ops.shape(input_mask)[1])  # [T, S]
    return tf.where(is_future, _HIDDEN_SCORE, bias)  # [B, 1, T, S]


def attention_bias_between(texts: Tensor, *, causal: bool) -> Tensor:
    """Builds the term that limits attention to the same text.

    Args:
        texts: `[B, T]`, the number of the text of each position.
        causal: as for `attention_bias_of`.

    Returns:
        `[B, 1, T, S]` float32.
    """
    is_hidden = texts[:, :, None] != texts[:, None, :]  # [B, T, S]
    if causal:
        is_hidden |= _is_future(texts.shape[1])
    return tf.where(is_hidden, _HIDDEN_SCORE, 0.0)[:, None]  # [B, 1, T, S]


def _is_future(length: int | Tensor) -> Tensor:
    positions = tf.range(length)
    return positions[None, :] > positions[:, None]  # [T, S]


class SelfAttention(layers.BertLayer):
    """Multi-head self-attention, without the projection of its output.

    Source: Vaswani et al. 2017, §3.2.

    Args:
        site: number of its dropout site.

    Call arguments:
        hidden: `[B * T, D]` float.
        attention_bias: `[B, 1, 1 or T, S]` float32, added to the scores.
        queries: `[B, D]`, the only position of each row that attends; all
            positions of `hidden` if None.

    Returns:
        As `hidden` or `queries`, of the policy's compute type.
    """

    def __init__(self, config: config_lib.BertConfig, site: int):
        super().__init__(name="self")
        self.config = config
        self.site = site
        sizes = (config.hidden_size, config.hidden_size)
        self.query, self.key, self.value = (
            layers.Dense(sizes, config.initializer_range, name=name)
            for name in ("query", "key", "value")
        )

    def call(
        self,
        hidden: Tensor,
        attention_bias: Tensor,
        dropout_seed: Tensor | None = None,
        queries: Tensor | None = None,
    ) -> Tensor:
        # Source: Vaswani et al. 2017, equation 1.
        probs = self.probs(hidden, attention_bias, queries)
        # As released: dropout hides whole tokens from a position.
        probs = dropout.dropout(
            probs,
            self.config.attention_probs_dropout_prob,
            dropout.site_seed(dropout_seed, self.site),
        )
        value = self._split(self.value, hidden, attention_bias[:, 0, 0])
        return layers.join_heads(tf.matmul(probs, value))  # [B * T, D]

    def probs(
        self,
        hidden: Tensor,
        attention_bias: Tensor,
        queries: Tensor | None = None,
    ) -> Tensor:
        """Computes attention probabilities, before dropout: [B, N, T, S]."""
        like = attention_bias[:, 0, 0]  # [B, S]
        key = self._split(self.key, hidden, like)
        if queries is None:
            queries = hidden
        else:
            like = like[:, :1]
        # Scaled before the product, which may overflow in float16.
        config = self.config
        scale = (config.hidden_size // config.num_attention_heads) ** -0.5
        query = self._split(self.query, queries, like, scale)
        scores = tf.matmul(query, key, transpose_b=True)  # [B, N, T, S]
        return layers.softmax(scores, attention_bias)

    def _split(
        self, dense: layers.Dense, x: Tensor, like: Tensor, scale: float = 1.0
    ) -> Tensor:
        return layers.split_heads(
            dense(x),
            dense.bias,
            like,
            self.config.num_attention_heads,
            scale,
        )  # [B, N, T, H]


class BlockOutput(layers.BertLayer):
    """The end of a block, from projection to normalization.

    Args:
        in_size: width of the block's inner result.
        site: number of its dropout site.

    Call arguments:
        x: `[M, in_size]` float, the block's inner result.
        residual: `[M, D]` float, the block's input.

    Returns:
        `[M, D]`, of the policy's compute type.
    """

    def __init__(self, config: config_lib.BertConfig, in_size: int, site: int):
        super().__init__(name="output")
        self.rate = config.hidden_dropout_prob
        self.site = site
        sizes = (in_size, config.hidden_size)
        self.dense = layers.Dense(sizes, config.initializer_range)
        self.norm = layers.LayerNorm(config.hidden_size)

    def call(
        self, x: Tensor, residual: Tensor, dropout_seed: Tensor | None = None
    ) -> Tensor:
        return layers.block_end(
            self.dense(x),
            self.dense.bias,
            residual,
            (self.norm.gamma, self.norm.beta),
            self.rate,
            dropout.site_seed(dropout_seed, self.site),
        )


class Attention(layers.BertLayer):
    """The attention block of a Transformer layer.

    Call arguments:
        hidden, attention_bias: as for `SelfAttention`.
        wanted: `[n]` int32, the rows of `hidden` whose output is needed; None
            for all.

    Returns:
        `[B * T, D]`, or `[n, D]`.
    """

    def __init__(self, config: config_lib.BertConfig, site: int):
        super().__init__(name="attention")
        self.self_attention = SelfAttention(config, site)
        self.block_output = BlockOutput(config, config.hidden_size, site + 1)

    def call(
        self,
        hidden: Tensor,
        attention_bias: Tensor,
        dropout_seed: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        residual, queries = hidden, None
        shares_rows = attention_bias.shape[2] != 1
        if wanted is not None:
            residual = tf.gather(hidden, wanted)  # [n, D]
            # One for each row of the batch, unless texts share rows.
            queries = None if shares_rows else residual
        context = self.self_attention(
            hidden, attention_bias, dropout_seed=dropout_seed, queries=queries
        )
        if wanted is not None and shares_rows:
            context = tf.gather(context, wanted)
        return self.block_output(context, residual, dropout_seed=dropout_seed)


class TransformerLayer(layers.BertLayer):
    """Attention, then a feed-forward block, each normalized at its end.

    Source: Vaswani et al. 2017, §3.1 (normalization after the residual).

    Args:
        index: number of the layer, from 0.

    Call arguments and result: as for `Attention`.
    """

    def __init__(self, config: config_lib.BertConfig, index: int):
        super().__init__(name=f"layer_{index}")
        site = _FIRST_LAYER_SITE + _DROPOUT_SITES_PER_LAYER * index
        self.attention = Attention(config, site)
        self.intermediate = layers.Transform(
            config, config.intermediate_size, name="intermediate"
        )
        self.block_output = BlockOutput(
            config, config.intermediate_size, site + 2
        )

    def call(
        self,
        hidden: Tensor,
        attention_bias: Tensor,
        dropout_seed: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> Tensor:
        hidden = self.attention(
            hidden, attention_bias, dropout_seed=dropout_seed, wanted=wanted
        )
        inside = self.intermediate(hidden)  # [..., F]
        return self.block_output(inside, hidden, dropout_seed=dropout_seed)


class Encoder(layers.BertLayer):
    """A stack of Transformer layers.

    Call arguments:
        hidden: `[B * T, D]` float. Matrices, because TensorFlow fuses their
            products with the following operations: with `[B, T, D]`, a
            pre-training step of BERT-Mini in bfloat16 takes 1.14 times the
            processor time (measured as for `layers.Dense`).
        attention_bias: as for `SelfAttention`.
        wanted: `[n]` int32, the rows of `hidden` whose output of the last layer
            is needed; None for all.

    Returns:
        The output of every layer, each `[B * T, D]`; `[n, D]` of the last if
        `wanted`.

    Attributes:
        recompute: gradient checkpointing: each layer keeps only its output.
    """

    def __init__(self, config: config_lib.BertConfig):
        super().__init__(name="encoder")
        self.recompute = False
        self.stack = [
            TransformerLayer(config, index)
            for index in range(config.num_hidden_layers)
        ]

    def call(
        self,
        hidden: Tensor,
        attention_bias: Tensor,
        dropout_seed: Tensor | None = None,
        wanted: Tensor | None = None,
    ) -> list[Tensor]:
        outputs = []
        for layer in self.stack:
            call: Callable[..., Tensor] = layer
            if self.recompute:
                call = functools.partial(_recomputed, layer)
            hidden = call(
                hidden,
                attention_bias=attention_bias,
                dropout_seed=dropout_seed,
                wanted=wanted if layer is self.stack[-1] else None,
            )
            outputs.append(hidden)
        return outputs


def _recomputed(
    layer: keras.layers.Layer, hidden: Tensor, **others: Tensor
) -> Tensor:
    """Calls a layer, and calls it again in the backward pass.

    Source: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".

    Between the two calls only `hidden` and the weights are kept. Both compute
    the same values, including dropout, which depends only on its seed.

    Args:
        layer: built; a pure function of its arguments and its weights.
        hidden: `[M, D]`; it and the weights get gradients.
        **others: further arguments, which get no gradient.

    Returns:
        The output of the layer: one tensor.
    """

    # The weights are passed as tensors: a custom gradient that reads variables
    # must distinguish them from its arguments, which fails for mirrored ones.
    # TensorFlow makes the second call depend on the upstream gradient; without
    # a dependency of the data, XLA would merge it with the first.
    @tf.recompute_grad
    def call(hidden: Tensor, *weights: Tensor) -> Tensor:
        result, _ = layer.stateless_call(
            weights, layer.non_trainable_variables, hidden, **others
        )
        return result

    return call(hidden, *map(tf.convert_to_tensor, layer.trainable_variables))


class Network(keras.Model):
    """The base class of models, which creates their variables.

    A model creates its layers in `build`, inside its own scope, so that every
    path is the model's name followed by the release's name of the variable.

    Args:
        config: the network's sizes.
        causal: left-to-right attention (Devlin et al. 2019, §5.1, "LTR").
        name: of the model, the first part of its variables' paths; the class
            default if None.
        dtype: Keras policy or its name; the global one if None.

    Attributes:
        optional_variables: patterns of variables that a checkpoint may lack,
            because no output depends on them.
    """

    default_name: str
    optional_variables: tuple[str, ...] = ()

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        causal: bool = False,
        name: str | None = None,
        dtype: Policy = None,
    ):
        super().__init__(
            name=name or self.default_name, dtype=dtype, autocast=False
        )
        self.config = config
        self.causal = causal
        self.seed_generator = keras.random.SeedGenerator(_next_seed())
        # Layers take the global policy when they are created.
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.dtype_policy)
        try:
            self.build()
        finally:
            keras.config.set_dtype_policy(before)

    def get_config(self) -> dict[str, object]:
        return {
            "config": self.config.to_dict(),
            "causal": self.causal,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(
        cls, config: json_text.Object, custom_objects: object = None
    ) -> Self:
        sizes = config_lib.BertConfig.from_dict(config["config"])
        dtype = keras.dtype_policies.deserialize(config["dtype"])
        return cls(**{**config, "config": sizes, "dtype": dtype})

    def build_from_config(self, config: json_text.Object) -> None:
        """Does nothing: the constructor has created the variables."""

    def seed_of_call(
        self, dropout_seed: Tensor | None, training: bool | None
    ) -> Tensor | None:
        """Returns the seed that is given; while training, a new one if none.

        Keras passes `training` in `fit`. The scripts give a seed, since their
        dropout is a function of the step.
        """
        if dropout_seed is not None or not training:
            return dropout_seed
        return keras.random.randint(
            [2], 0, _MAX_SEED, dtype="int32", seed=self.seed_generator
        )


def _next_seed() -> int:
    """Returns the number that Python's generator would draw next.

    `keras.utils.set_random_seed` sets that generator. It also draws the initial
    weights, which would change if this were a draw.
    """
    generator = random.Random()
    generator.setstate(random.getstate())
    return generator.randrange(_MAX_SEED)


@keras.saving.register_keras_serializable("bert")
class BertModel(Network):
    """The encoder of sequences of word pieces.

    Source: Devlin et al. 2019, §3. Args: as for `Network`.

    Call arguments:
        input_ids: `[B, T]` int32.
        input_mask: `[B, T]` int32, 1 for a token, 0 for padding; ones if None.
        segment_ids: `[B, T]` int32; zeros if None.
        dropout_seed: `[2]` int32, of which all dropout is a pure function. If
            it is None there is no dropout, but with `training` the seed is
            drawn by Keras' generator, as `keras.layers.Dropout` does.
        first_only: compute the last layer only at the first position, [CLS];
            its output is then `[B, 1, D]`. It must not be used with causal
            attention.
        packed: `[R, T]` int32, see `packing.Packing`, to compute the texts in
            these rows; None to compute the batch as it is. Outputs are those of
            the texts, except that those of padding are 0.

    Returns:
        A dict: `embedding_output` `[B, T, D]`, `all_encoder_layers` (a list of
        `[B, T, D]`), `sequence_output` `[B, T, D]`, the last of them, and
        `pooled_output` `[B, D]`.

    Raises:
        ValueError: T is more than `max_position_embeddings`.
    """

    default_name = "bert"
    # The release's scope of these variables, whatever the model's name.
    release_scope = "bert"
    # The hidden layers do not depend on it.
    optional_variables = (name_tables.POOLER,)

    def build(self, input_shape: Shape = None) -> None:
        config = self.config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = layers.Transform(
            config, config.hidden_size, name="pooler", activation="tanh"
        )
        for layer in (self.embeddings, self.encoder, self.pooler):
            layer.build()

    def call(  # noqa: PLR0913 (Keras finds `training` by its name)
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        dropout_seed: Tensor | None = None,
        *,
        first_only: bool = False,
        packed: Tensor | None = None,
        training: bool | None = None,
    ) -> dict[str, Tensor | list[Tensor]]:
        dropout_seed = self.seed_of_call(dropout_seed, training)
        batch, length = ops.shape(input_ids)
        if segment_ids is None:
            segment_ids = tf.zeros_like(input_ids)
        if packed is None:
            if input_mask is None:
                input_mask = tf.ones_like(input_ids)
            bias = attention_bias_of(input_mask, causal=self.causal)
            positions, firsts = None, tf.range(batch) * length
        else:
            rows = packing.Packing(packed, batch)
            bias = attention_bias_between(rows.texts, causal=self.causal)
            input_ids, segment_ids = map(rows.packed, (input_ids, segment_ids))
            positions, firsts = rows.positions, rows.flat_positions[:, 0]
        embedded = self.embeddings(
            input_ids,
            segment_ids,
            dropout_seed=dropout_seed,
            positions=positions,
        )
        width = self.config.hidden_size
        outputs = self.encoder(
            tf.reshape(embedded, [-1, width]),
            bias,
            dropout_seed=dropout_seed,
            wanted=firsts if first_only else None,
        )

        def texts_of(hidden: Tensor) -> Tensor:
            if packed is not None:
                return rows.unpacked(hidden)
            return tf.reshape(hidden, [batch, length, width])

        last = outputs.pop()
        last = last[:, None] if first_only else texts_of(last)
        return {
            "embedding_output": texts_of(embedded),
            "all_encoder_layers": [*map(texts_of, outputs), last],
            "sequence_output": last,
            "pooled_output": self.pooler(last[:, 0]),  # [B, D]
        }

    def attention_probs(
        self,
        input_ids: Tensor,
        input_mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
    ) -> list[Tensor]:
        """Computes the attention probabilities of each layer, without dropout.

        Returns:
            For each layer `[B, N, T, S]`, which sums to 1 over S.
        """
        input_ids = tf.convert_to_tensor(input_ids)
        if input_mask is None:
            input_mask = tf.ones_like(input_ids)
        outputs = self(input_ids, input_mask, segment_ids)
        inputs = [
            outputs["embedding_output"],
            *outputs["all_encoder_layers"][:-1],
        ]
        bias = attention_bias_of(input_mask, causal=self.causal)
        return [
            layer.attention.self_attention.probs(
                tf.reshape(hidden, [-1, self.config.hidden_size]), bias
            )
            for layer, hidden in zip(self.encoder.stack, inputs, strict=True)
        ]
