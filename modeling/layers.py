"""The layers of which the network consists, with the release's names.

The path of a variable is the nesting of layer names, so layers are nested like
the names in a checkpoint. Every layer gets its sizes from the config and
creates its variables in `build`, in the release's order. Variables are float32;
matrix products have the policy's compute type.
"""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

from modeling import config as config_lib
from modeling import kernels
from modeling.compilation import Policy, Tensor

# Source: run_classifier.py and run_squad.py of the release, which ignore the
# config's range for the heads.
HEAD_INITIALIZER_RANGE = 0.02


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


@contextlib.contextmanager
def with_policy(policy: Policy) -> Iterator[None]:
    """Creates the layers of a model by its policy, not by the global one."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def add_variable(layer: keras.layers.Layer, name: str, shape, initializer):
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

    def build(self, input_shape=None):
        # In the order of their assignment.
        for layer in self._layers:
            layer.build()


class Dense(BertLayer):
    """A kernel and a bias, which a kernel of `modeling.kernels` adds.

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

    def build(self, input_shape=None):
        self.kernel = add_variable(
            self, "kernel", self.sizes, truncated_normal(self.initializer_range)
        )
        self.bias = add_variable(self, "bias", self.sizes[1:], "zeros")

    def call(self, x):
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

    def build(self, input_shape=None):
        self.beta = add_variable(self, "beta", (self.size,), "zeros")
        self.gamma = add_variable(self, "gamma", (self.size,), "ones")

    def call(self, x):
        return kernels.layer_norm(x, self.gamma, self.beta)


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

    def call(self, x):
        hidden = kernels.bias_activation(
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

    def build(self, input_shape=None):
        self.output_weights, self.output_bias = output_variables(
            self, self.sizes, self.initializer_range, self.has_bias
        )

    def call(self, x) -> Tensor:
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
