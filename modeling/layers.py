"""The layers of which the network consists, with the original's names.

The path of a variable is the nesting of layer names, so layers are nested like
the names in a checkpoint. Every layer gets its sizes from the config and
creates its variables in `build`, in the original's order. Variables are
float32; matrix products have the policy's compute type. The arithmetic between
products is in float32; its inputs and results have the type of the first input.
"""

import functools
from collections.abc import Callable

import keras
import tensorflow as tf
from keras import ops

from modeling import compilation, dropout
from modeling import config as config_lib
from modeling.tensor_types import Shape, Tensor

# Source: run_classifier.py and run_squad.py of the release, which ignore the
# config's range for the heads.
HEAD_INITIALIZER_RANGE = 0.02
# Source: the release (tf.contrib.layers.layer_norm).
LAYER_NORM_EPSILON = 1e-12

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    # As released: the tanh form, which differs from erf by up to 4.7e-4.
    "gelu": functools.partial(tf.nn.gelu, approximate=True),
    "gelu_exact": functools.partial(tf.nn.gelu, approximate=False),
    "linear": tf.identity,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
}


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


def add_variable(
    layer: keras.layers.Layer,
    name: str,
    shape: tuple[int, ...],
    initializer: keras.initializers.Initializer | str,
) -> keras.Variable:
    """Adds a trainable float32 variable to a layer or model."""
    return layer.add_weight(
        shape=shape,
        initializer=initializer,
        name=name,
        dtype="float32",
        autocast=False,
    )


class BertLayer(keras.layers.Layer):
    """A layer whose inputs and variables Keras does not cast.

    Keras would cast every float input and variable to the type of the policy,
    which is too narrow for normalization, softmax and logits. Unless a class
    defines `build`, it builds the layers that its constructor creates.

    Args:
        config: in classes that take it, the network's sizes.
        name: of the release.

    Call arguments:
        dropout_seed: in classes that take it, `[2]` int32, or None for no
            dropout.
    """

    def __init__(self, *, name: str):
        super().__init__(name=name, autocast=False)

    def build(self, input_shape: Shape = None) -> None:
        # Their order is that of their assignment.
        for layer in self._layers:
            layer.build()


class Dense(BertLayer):
    """A kernel and a bias, which the following arithmetic adds.

    It adds the bias in float32 and in the same pass over memory. Added here, to
    the product in bfloat16, the bias would be rounded once more, and a training
    step of BERT-Mini takes 1.03 to 1.05 times the processor time, 1.03 times in
    float32 (medians of pairs, two cores of an AMD EPYC with AVX512-BF16).

    Args:
        sizes: width of the input and of the output.
        initializer_range: as in `BertConfig`.
        name: of the release.

    Call arguments:
        x: `[..., in]` float.

    Returns:
        `[..., out]`, the product without the bias, of the policy's compute
        type.
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

    def build(self, input_shape: Shape = None) -> None:
        self.kernel = add_variable(
            self, "kernel", self.sizes, truncated_normal(self.initializer_range)
        )
        self.bias = add_variable(self, "bias", self.sizes[1:], "zeros")

    def call(self, x: Tensor) -> Tensor:
        return tf.matmul(
            tf.cast(x, self.compute_dtype),
            tf.cast(self.kernel, self.compute_dtype),
        )


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

    def build(self, input_shape: Shape = None) -> None:
        self.beta = add_variable(self, "beta", (self.size,), "zeros")
        self.gamma = add_variable(self, "gamma", (self.size,), "ones")

    def call(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.gamma, self.beta)


class Transform(BertLayer):
    """A dense layer and its activation in a separate scope.

    Args:
        config: for the width of the input, the initial kernel and the default
            activation.
        size: width of the output.
        activation: replaces `config.hidden_act`.
        has_norm: whether a normalization follows.
        name: of the release.

    Call arguments:
        x: `[..., D]` float.

    Returns:
        `[..., size]`, of the policy's compute type.
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
        self.activation = config_lib.activation(act)
        self.dense = Dense((config.hidden_size, size), config.initializer_range)
        self.norm = LayerNorm(size) if has_norm else None

    def call(self, x: Tensor) -> Tensor:
        hidden = bias_activation(
            self.dense(x), self.dense.bias, activation=self.activation
        )
        return self.norm(hidden) if self.norm else hidden


class OutputLayer(BertLayer):
    """A float32 linear layer with the variables of the release's heads.

    Args:
        width: D, of the input.
        num_outputs: K.
        initializer_range: of the weights.
        has_bias: whether it has `output_bias`.
        name: of the release.

    Call arguments:
        x: `[..., D]` float.

    Returns:
        `[..., K]` float32 logits.
    """

    def __init__(
        self,
        width: int,
        num_outputs: int,
        *,
        name: str,
        initializer_range: float = HEAD_INITIALIZER_RANGE,
        has_bias: bool = True,
    ):
        super().__init__(name=name)
        self.sizes = (num_outputs, width)
        self.initializer_range = initializer_range
        self.has_bias = has_bias

    def build(self, input_shape: Shape = None) -> None:
        self.output_weights, self.output_bias = output_variables(
            self, self.sizes, self.initializer_range, self.has_bias
        )

    def call(self, x: Tensor) -> Tensor:
        return linear(x, self.output_weights, self.output_bias)


def output_variables(
    layer: keras.layers.Layer,
    sizes: tuple[int, int],
    initializer_range: float = HEAD_INITIALIZER_RANGE,
    has_bias: bool = True,
) -> tuple[keras.Variable, keras.Variable | None]:
    """Adds the weights and the bias of a linear output to a layer."""
    weights = add_variable(
        layer, "output_weights", sizes, truncated_normal(initializer_range)
    )
    if not has_bias:
        return weights, None
    return weights, add_variable(layer, "output_bias", sizes[:1], "zeros")


def linear(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """Computes logits: `[..., K]` float32 of `[..., D]`, `[K, D]`, `[K]`."""
    transposed = tf.transpose(tf.convert_to_tensor(weights))
    logits = tf.matmul(tf.cast(x, tf.float32), transposed)
    return logits if bias is None else logits + bias


# -------------------------------------------------- Arithmetic between products


@compilation.fused
def bias_activation(x: Tensor, bias: Tensor, *, activation: str) -> Tensor:
    """Adds a bias and applies a member of `config.ACTIVATIONS`.

    Args:
        x: `[..., D]` float.
        bias: `[D]` float32.
        activation: its name.

    Returns:
        `[..., D]`, of the type of `x`.
    """
    # The form that TensorFlow fuses with the product before it, unlike "+".
    rows = tf.nn.bias_add(tf.cast(x, tf.float32), bias)
    return tf.cast(_ACTIVATIONS[activation](rows), x.dtype)


@compilation.fused
def layer_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Normalizes each row to mean 0 and variance 1, then scales and shifts.

    Args:
        x: `[..., D]` float.
        gamma: `[D]` float32.
        beta: `[D]` float32.

    Returns:
        `[..., D]`, of the type of `x`.
    """
    return _normalized(tf.cast(x, tf.float32), gamma, beta, x.dtype)


def _normalized(
    rows: Tensor, gamma: Tensor, beta: Tensor, dtype: tf.DType
) -> Tensor:
    centered = rows - tf.reduce_mean(rows, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    normal = centered * tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    return tf.cast(normal * gamma + beta, dtype)


def block_end(
    x: Tensor,
    bias: Tensor,
    residual: Tensor,
    norm: tuple[Tensor, Tensor],
    dropout_rate: float,
    seed: Tensor | None,
) -> Tensor:
    """Applies bias, dropout, residual connection and normalization.

    Args:
        x: `[..., D]` float, the block's last product.
        bias: `[D]` float32.
        residual: `[..., D]` float, the block's input.
        norm: gamma and beta, each `[D]` float32.
        dropout_rate, seed: as for `dropout.dropout`.

    Returns:
        `[..., D]`, of the type of `x`.
    """
    rate, seed = dropout.rate_and_seed(dropout_rate, seed)
    return _block_end(x, bias, residual, *norm, seed, rate=rate)


@compilation.fused
def _block_end(
    x: Tensor,
    bias: Tensor,
    residual: Tensor,
    *norm_and_seed: Tensor,
    rate: float,
) -> Tensor:
    gamma, beta, seed = norm_and_seed
    rows = tf.nn.bias_add(tf.cast(x, tf.float32), bias)
    rows = dropout.dropped(rows, seed, rate) + tf.cast(residual, tf.float32)
    return _normalized(rows, gamma, beta, x.dtype)


def split_heads(
    x: Tensor, bias: Tensor, like: Tensor, num_heads: int, scale: float
) -> Tensor:
    """Adds a bias, scales, and splits rows into heads.

    Args:
        x: `[B * T, D]` float.
        bias: `[D]` float32.
        like: `[B, T]`, of which only the shape counts.
        num_heads: N.
        scale: a factor.

    Returns:
        `[B, N, T, H]`, of the type of `x`.
    """
    # Two functions, because the gradient of the bias is a sum of rows, which
    # XLA computes 20 times as fast for a matrix as for a transposed one.
    rows = _scaled(x, bias, scale=scale)
    return _split_heads(rows, like, num_heads=num_heads)


@compilation.fused
def _scaled(x: Tensor, bias: Tensor, *, scale: float) -> Tensor:
    rows = tf.nn.bias_add(tf.cast(x, tf.float32), bias)
    return tf.cast(rows * scale if scale != 1 else rows, x.dtype)


@compilation.fused
def _split_heads(rows: Tensor, like: Tensor, *, num_heads: int) -> Tensor:
    sizes = (num_heads, rows.shape[-1] // num_heads)
    split = tf.reshape(rows, [*ops.shape(like), *sizes])  # [B, T, N, H]
    return tf.transpose(split, [0, 2, 1, 3])  # [B, N, T, H]


@compilation.fused
def join_heads(x: Tensor) -> Tensor:
    """Joins `[B, N, T, H]` to rows `[B * T, D]`."""
    batch, num_heads, length, size = ops.shape(x)
    last = tf.transpose(x, [0, 2, 1, 3])  # [B, T, N, H]
    return tf.reshape(last, [batch * length, num_heads * size])


def _softmax_gradient(upstream: Tensor, result: Tensor) -> Tensor:
    probs, upstream = (tf.cast(x, tf.float32) for x in (result, upstream))
    along = tf.reduce_sum(probs * upstream, axis=-1, keepdims=True)
    return tf.cast(probs * (upstream - along), result.dtype)


@functools.partial(compilation.fused, gradient=_softmax_gradient)
def softmax(scores: Tensor, bias: Tensor) -> Tensor:
    """Computes softmax(scores + bias).

    Args:
        scores: `[B, N, T, S]` float.
        bias: `[B, 1, 1 or T, S]` float32, which gets no gradient.

    Returns:
        As `scores`.
    """
    probs = tf.nn.softmax(tf.cast(scores, tf.float32) + bias)
    return tf.cast(probs, scores.dtype)
