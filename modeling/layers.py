"""The layers of the network and their attention, with the release's names.

The path of a variable is the nesting of layer names, so layers are nested like
the names in a checkpoint. Every layer gets its sizes from the config and
creates its variables in `build`, in the release's order. Variables are float32;
matrix products have the policy's compute type.
"""

import contextlib
from collections.abc import Callable, Iterator

import keras
from keras import ops

from modeling import compilation, kernels
from modeling import config as config_lib
from modeling.compilation import Dropout, Policy, Tensor

_DROPOUT_SITES_PER_LAYER = 3
_FIRST_LAYER_SITE = 1  # 0 is the embeddings'.
# Source: the release; added to the scores of padding.
PADDING_SCORE = -10000.0
# Below every score plus padding, so that exp gives 0; finite, so no NaN.
_HIDDEN_SCORE = -1e30


def num_dropout_sites(config: config_lib.BertConfig) -> int:
    """Counts the dropout sites of an encoder; those of a head come after."""
    inside = _DROPOUT_SITES_PER_LAYER * config.num_hidden_layers
    return _FIRST_LAYER_SITE + inside


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Creates the initializer of a variable: a normal truncated at 2 sigma.

    Its seed comes from the generator that `keras.utils.set_random_seed` sets.
    Use a new one for each variable: equal shapes would get equal values.

    Args:
        stddev: before truncation, which reduces it to 88 %; 0 for zeros.
    """
    if not stddev:
        return keras.initializers.Zeros()
    return keras.initializers.TruncatedNormal(stddev=stddev)


def dropped(
    x: Tensor, rate: float, dropout_seed: Tensor | None, site: int
) -> Tensor:
    """Applies the dropout of a numbered site; none without a seed."""
    return kernels.dropout(x, rate, kernels.site_seed(dropout_seed, site))


@contextlib.contextmanager
def with_policy(policy: Policy) -> Iterator[None]:
    """Creates the layers of a model by its policy, not by the global one."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


class BertLayer(keras.layers.Layer):
    """A layer whose inputs and variables Keras does not cast.

    Keras would cast every float input and variable to the type of the policy,
    which is too narrow for normalization, softmax and logits. Unless a class
    defines `build`, it builds the layers that its constructor creates.

    Args:
        name: of the release.
    """

    def __init__(self, *, name: str):
        super().__init__(name=name, autocast=False)

    def build(self, input_shape=None):
        # In the order of their assignment.
        for layer in self._layers:
            layer.build()

    def add_variable(self, name: str, shape: tuple[int, ...], initializer):
        """Adds a trainable float32 variable."""
        return self.add_weight(
            shape=shape,
            initializer=initializer,
            name=name,
            dtype="float32",
            autocast=False,
        )


class Dense(BertLayer):
    """A dense layer: a product with a kernel, and a bias.

    Args:
        sizes: width of the input and of the output.
        initializer_range: as in `BertConfig`.
        name: of the release.

    Call arguments:
        x: `[..., in]` float.

    Returns:
        `[..., out]`, of the policy's compute type.
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        initializer_range: float,
        *,
        name: str = "dense",
    ):
        super().__init__(name=name)
        self.sizes = sizes
        self.initializer_range = initializer_range

    def build(self, input_shape=None):
        self.kernel = self.add_variable(
            "kernel", self.sizes, truncated_normal(self.initializer_range)
        )
        self.bias = self.add_variable("bias", self.sizes[1:], "zeros")

    def product(self, x):
        """Multiplies without adding the bias."""
        return ops.matmul(
            ops.cast(x, self.compute_dtype),
            ops.cast(self.kernel, self.compute_dtype),
        )

    def call(self, x):
        return kernels.biased(self.product(x), self.bias)


class LayerNorm(BertLayer):
    """Layer normalization.

    Args:
        size: width of the rows, D.

    Call arguments:
        x: `[..., D]` float.

    Returns:
        `[..., D]`, of the type of `x`.
    """

    def __init__(self, size: int):
        super().__init__(name="LayerNorm")
        self.size = size

    def build(self, input_shape=None):
        self.beta = self.add_variable("beta", (self.size,), "zeros")
        self.gamma = self.add_variable("gamma", (self.size,), "ones")

    def call(self, x):
        return kernels.layer_norm(x, self.gamma, self.beta)


def adder_of(input_mask: Tensor, *, causal: bool) -> Tensor:
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
    padding = 1.0 - ops.cast(input_mask, "float32")
    # Not `[:, None, None]`: no slice of LiteRT adds axes.
    adder = ops.expand_dims(padding, (1, 2)) * PADDING_SCORE  # [B, 1, 1, S]
    if not causal:
        return adder
    is_future = _is_future(ops.shape(input_mask)[1])  # [T, S]
    return ops.where(is_future, _HIDDEN_SCORE, adder)  # [B, 1, T, S]


def adder_between(texts: Tensor, *, causal: bool) -> Tensor:
    """Builds the term that limits attention to the same text.

    Args:
        texts: `[B, T]`, the number of the text of each position.
        causal: each position attends only to itself and those before it.

    Returns:
        `[B, 1, T, S]` float32.
    """
    is_hidden = texts[:, :, None] != texts[:, None, :]  # [B, T, S]
    if causal:
        is_hidden = ops.logical_or(is_hidden, _is_future(texts.shape[1]))
    adder = ops.where(is_hidden, _HIDDEN_SCORE, 0.0)
    return ops.expand_dims(adder, 1)  # [B, 1, T, S]


def _is_future(length):
    """Returns `[T, S]` bool: whether S is later than T."""
    positions = ops.arange(length)
    return positions[None, :] > positions[:, None]


def attention(
    query: Tensor, key: Tensor, value: Tensor, adder: Tensor, drop: Dropout
) -> Tensor:
    """Computes softmax(query · key / √H + adder) · value.

    Source: Vaswani et al. 2017, equation 1. This is the definition; training
    uses the fused `attend`.

    Args:
        query, key, value: `[B, N, T, H]` float.
        adder: `[B, 1, 1 or T, S]` float32, from `adder_of`.
        drop: rate and seed of the dropout of probabilities; see
            `kernels.dropout`. As released, it drops complete tokens from the
            attended sequence.

    Returns:
        `[B, N, T, H]`, of the type of `value`.
    """
    probs = attention_probs(query, key, adder)  # [B, N, T, S]
    return ops.matmul(kernels.dropout(probs, *drop), value)


def attention_probs(query: Tensor, key: Tensor, adder: Tensor) -> Tensor:
    """Computes softmax(query · key / √H + adder), before dropout.

    Args:
        query, key, adder: as for `attention`.

    Returns:
        `[B, N, T, S]`, of the type of `key`; sums to 1 over S.
    """
    scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
    return _probs(scores, adder, scale=query.shape[-1] ** -0.5)


def _probs(scores, adder, *, scale):
    scaled = ops.cast(scores, "float32") * scale + adder
    return ops.cast(ops.softmax(scaled, axis=-1), scores.dtype)


def attend(
    products: Tensor,
    bias: Tensor,
    adder: Tensor,
    num_heads: int,
    drop: Dropout,
) -> Tensor:
    """Computes `attention` from the products of all heads, without their bias.

    On TensorFlow it has a custom gradient: only the arguments and the
    probabilities before and after dropout are kept for the backward pass, and
    the operations between two products are one compiled pass over memory.

    Args:
        products: `[B, T, 3 * D]` or `[B * T, 3 * D]` float: queries, keys and
            values, without their bias.
        bias: `[3 * D]` float32.
        num_heads: N.
        adder, drop: as for `attention`.

    Returns:
        `[B, T, D]` or `[B * T, D]`, of the type of `products`.
    """
    shape = ops.shape(products)
    batch, length = ops.shape(adder)[0], ops.shape(adder)[-1]
    products = ops.reshape(products, (batch, length, shape[-1]))
    if compilation.is_plain():
        split = split_heads(products, bias, num_heads=num_heads)
        context = _heads_last(attention(*split, adder, drop))
    else:
        context = _attend(products, bias, adder, num_heads, drop)
    return ops.reshape(context, (*shape[:-1], shape[-1] // 3))


def attend_apart(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    adder: Tensor,
    num_heads: int,
    drop: Dropout,
) -> Tensor:
    """Computes `attention` from separate queries, keys and values.

    Args:
        query: `[B, T, D]` or `[B * S, D]` float.
        key, value: `[B, S, D]` or `[B * S, D]` float.
        adder, num_heads, drop: as for `attend`.

    Returns:
        As `query`.
    """
    shape = ops.shape(query)
    # Not -1, which an empty batch leaves undefined.
    batch, length = ops.shape(adder)[0], ops.shape(adder)[-1]
    query, key, value = (
        _heads_first(
            ops.reshape(x, (batch, length, x.shape[-1]))
            if len(x.shape) == 2
            else x,
            num_heads=num_heads,
        )
        for x in (query, key, value)
    )
    context = attention(query, key, value, adder, drop)
    return ops.reshape(_heads_last(context), shape)


def _attend(products, bias, adder, num_heads, drop):
    """Computes `attend` on `[B, T, 3 * D]`, with a custom gradient."""
    rate, seed = drop
    if not kernels.drops(rate, seed):
        rate = 0.0

    def compute(products, bias):
        query, key, value = compilation.compiled(split_heads)(
            products, bias, num_heads=num_heads
        )
        scale = query.shape[-1] ** -0.5
        scores = ops.matmul(query, ops.swapaxes(key, 2, 3))  # [B, N, T, S]
        kept = compilation.compiled(_probs)(scores, adder, scale=scale)
        dropped = kept
        if rate:
            dropped = compilation.compiled(kernels.dropped)(
                kept, seed, rate=rate
            )
        context = ops.matmul(dropped, value)  # [B, N, T, H]

        def gradient(upstream):
            upstream = compilation.compiled(_heads_first)(
                upstream, num_heads=num_heads
            )  # [B, N, T, H]
            d_value = ops.matmul(ops.swapaxes(dropped, 2, 3), upstream)
            d_dropped = ops.matmul(upstream, ops.swapaxes(value, 2, 3))
            d_scores = compilation.compiled(_scores_gradient)(
                *(kept, dropped, d_dropped, context, upstream), rate=rate
            )  # [B, N, T, S]
            d_query = ops.matmul(d_scores, key)
            d_key = ops.matmul(ops.swapaxes(d_scores, 2, 3), query)
            joined = compilation.compiled(_join)(d_query, d_key, d_value)
            return joined, compilation.compiled(kernels.sum_of_rows)(
                kernels.rows_of(joined)
            )

        return compilation.compiled(_heads_last)(context), gradient

    return compilation.with_gradient(compute, products, bias)


def _scores_gradient(kept, dropped, d_dropped, context, d_context, *, rate):
    compute_dtype, scale = kept.dtype, context.shape[-1] ** -0.5
    kept, d_dropped, context, d_context = (
        ops.cast(x, "float32") for x in (kept, d_dropped, context, d_context)
    )
    # Faster than drawing the mask again. Where `kept` is 0, so is the result.
    d_kept = ops.where(
        dropped != 0, d_dropped * kernels.dropout_scale(rate), 0.0
    )
    # The sum of kept * d_kept over S, computed as the sum of
    # context * d_context over H, which is shorter.
    along = ops.sum(context * d_context, axis=-1, keepdims=True)  # [B, N, T, 1]
    return ops.cast(kept * (d_kept - along) * scale, compute_dtype)


def split_heads(
    products: Tensor, bias: Tensor, *, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Adds the bias to `[B, T, 3 * D]` and splits it: three `[B, N, T, H]`."""
    biased = ops.cast(products, "float32") + bias
    biased = ops.cast(biased, products.dtype)
    width = biased.shape[-1] // 3
    query, key, value = (
        _heads_first(
            biased[..., i * width : (i + 1) * width], num_heads=num_heads
        )
        for i in range(3)
    )
    return query, key, value


def _heads_first(x, *, num_heads):
    batch, length, width = ops.shape(x)
    size = width // num_heads
    split = ops.reshape(x, (batch, length, num_heads, size))  # [B, T, N, H]
    return ops.transpose(split, (0, 2, 1, 3))  # [B, N, T, H]


def _heads_last(x):
    batch, count, length, size = ops.shape(x)
    last = ops.transpose(x, (0, 2, 1, 3))  # [B, T, N, H]
    return ops.reshape(last, (batch, length, count * size))  # [B, T, D]


def _join(query, key, value):
    """Joins three `[B, N, T, H]`: `[B, T, 3 * D]`."""
    parts = [_heads_last(part) for part in (query, key, value)]
    return ops.concatenate(parts, axis=-1)


class SelfAttention(BertLayer):
    """Multi-head self-attention, without the projection of its output.

    Source: Vaswani et al. 2017, §3.2.

    Args:
        config: the network's sizes.
        site: number of its dropout site.

    Call arguments:
        hidden: `[B, T, D]` or `[B * T, D]` float.
        adder: `[B, 1, 1 or T, S]` float32, from `adder_of`.
        dropout_seed: `[2]` int32, or None for no dropout.
        first: `[B, D]`, the rows of `hidden` at the first positions, if only
            their result is needed; else None.

    Returns:
        As `hidden`, or as `first` if given, of the policy's compute type.
    """

    def __init__(self, config: config_lib.BertConfig, site: int):
        super().__init__(name="self")
        self.config = config
        self.site = site
        sizes = (config.hidden_size, config.hidden_size)
        self.query, self.key, self.value = (
            Dense(sizes, config.initializer_range, name=name)
            for name in ("query", "key", "value")
        )

    def _projections(self, hidden) -> tuple[Tensor, Tensor]:
        """Returns the products `[..., 3 * D]` and their bias `[3 * D]`."""
        denses = (self.query, self.key, self.value)
        kernel = ops.concatenate(
            [ops.cast(dense.kernel, self.compute_dtype) for dense in denses],
            axis=1,
        )  # [D, 3 * D]
        bias = ops.concatenate([dense.bias for dense in denses], axis=0)
        return ops.matmul(ops.cast(hidden, self.compute_dtype), kernel), bias

    def probs(self, hidden, adder):
        """Computes attention probabilities, before dropout: [B, N, T, S]."""
        products, bias = self._projections(hidden)
        query, key, _ = split_heads(
            products, bias, num_heads=self.config.num_attention_heads
        )
        return attention_probs(query, key, adder)

    def call(self, hidden, adder, dropout_seed=None, first=None):
        num_heads = self.config.num_attention_heads
        drop = (
            self.config.attention_probs_dropout_prob,
            kernels.site_seed(dropout_seed, self.site),
        )
        if first is None and not compilation.is_forward_only():
            products, bias = self._projections(hidden)
            return attend(products, bias, adder, num_heads, drop)
        # Faster than the joint product if nothing is compiled: neither kernels
        # nor results are copied.
        if first is None:
            query = self.query(hidden)
        else:
            query = ops.expand_dims(self.query(first), 1)  # [B, 1, D]
        context = attend_apart(
            query, self.key(hidden), self.value(hidden), adder, num_heads, drop
        )
        return context if first is None else ops.squeeze(context, 1)  # [B, D]


class BlockOutput(BertLayer):
    """The end of a block, from projection to normalization.

    Args:
        config: the network's sizes.
        in_size: width of the block's inner result.
        site: number of its dropout site.

    Call arguments:
        x: `[..., in_size]` float, the block's inner result.
        residual: `[..., D]` float, the block's input.
        dropout_seed: `[2]` int32, or None for no dropout.

    Returns:
        `[..., D]`, of the policy's compute type.
    """

    def __init__(self, config: config_lib.BertConfig, in_size: int, site: int):
        super().__init__(name="output")
        self.rate = config.hidden_dropout_prob
        self.site = site
        sizes = (in_size, config.hidden_size)
        self.dense = Dense(sizes, config.initializer_range)
        self.norm = LayerNorm(config.hidden_size)

    def call(self, x, residual, dropout_seed=None):
        seed = kernels.site_seed(dropout_seed, self.site)
        return kernels.block_end(
            self.dense.product(x),
            self.dense.bias,
            residual,
            (self.norm.gamma, self.norm.beta),
            (self.rate, seed),
        )


class Attention(BertLayer):
    """The attention block of a Transformer layer.

    Call arguments:
        hidden, adder, dropout_seed, first: as for `SelfAttention`.
        rows: `[n]` int32, the rows of `[B * T, D]` whose result is needed; None
            for all.
    """

    def __init__(self, config: config_lib.BertConfig, site: int):
        super().__init__(name="attention")
        self.self_attention = SelfAttention(config, site)
        self.block_output = BlockOutput(config, config.hidden_size, site + 1)

    def call(self, hidden, adder, dropout_seed=None, first=None, rows=None):
        context = self.self_attention(
            hidden, adder, dropout_seed=dropout_seed, first=first
        )
        residual = hidden if first is None else first
        if rows is not None:
            context = ops.take(context, rows, axis=0)
            residual = ops.take(residual, rows, axis=0)
        return self.block_output(context, residual, dropout_seed=dropout_seed)


class Transform(BertLayer):
    """A dense layer and its activation in a separate scope.

    Args:
        config: for the width of the input, the initial kernel and the default
            activation.
        size: width of the output.
        activation: replaces `config.hidden_act`.
        has_norm: whether a normalization follows.
        name: of the release.

    Call arguments and result: as for `Dense`.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        size: int,
        *,
        name: str,
        activation: str | None = None,
        has_norm: bool = False,
    ):
        super().__init__(name=name)
        act = activation or config.hidden_act
        self.activation: str | Callable = config_lib.activation(act)
        self.dense = Dense((config.hidden_size, size), config.initializer_range)
        self.norm = LayerNorm(size) if has_norm else None

    def call(self, x):
        hidden = kernels.activate(
            self.dense.product(x), self.dense.bias, self.activation
        )
        return self.norm(hidden) if self.norm else hidden


class TransformerLayer(BertLayer):
    """Attention, then a feed-forward block, each normalized at its end.

    Source: Vaswani et al. 2017, §3.1 (normalization after the residual).

    Args:
        config: the network's sizes.
        index: number of the layer, from 0.

    Call arguments: as for `Attention`.
    """

    def __init__(self, config: config_lib.BertConfig, index: int):
        super().__init__(name=f"layer_{index}")
        site = _FIRST_LAYER_SITE + _DROPOUT_SITES_PER_LAYER * index
        self.attention = Attention(config, site)
        self.intermediate = Transform(
            config, config.intermediate_size, name="intermediate"
        )
        self.block_output = BlockOutput(
            config, config.intermediate_size, site + 2
        )

    def call(self, hidden, adder, dropout_seed=None, first=None, rows=None):
        hidden = self.attention(
            hidden, adder, dropout_seed=dropout_seed, first=first, rows=rows
        )
        inside = self.intermediate(hidden)  # [..., F]
        return self.block_output(inside, hidden, dropout_seed=dropout_seed)
