"""Recurrent layers of the ablated models: Devlin et al. 2019, §5.1 and §5.3."""

from collections.abc import Sequence

import keras
from keras import ops

from modeling import config as config_lib
from modeling import dropout, layers
from modeling.tensor_types import Shape, Tensor

_NUM_LSTM_LAYERS = 2


def layer_numbers(features: str, num_hidden_layers: int) -> tuple[int, ...]:
    """Lists the layers of a row of table 7; 0 are the embeddings.

    Args:
        features: the row, such as "concat_last_four"; see `--features`.
        num_hidden_layers: of the encoder.

    Raises:
        ValueError: the encoder has fewer layers.
    """
    last = num_hidden_layers
    first, end = {
        "embeddings": (0, 0),
        "second_to_last": (last - 1, last - 1),
        "last": (last, last),
        "sum_last_four": (last - 3, last),
        "concat_last_four": (last - 3, last),
        "sum_all": (1, last),
    }[features]
    if first < 1 and features != "embeddings":
        raise ValueError(
            f"{features} needs at least {last + 1 - first} layers; the model "
            f"has {last}."
        )
    return tuple(range(first, end + 1))


def bidirectional_lstm(
    num_units: int, *, name: str, inner_name: str
) -> keras.layers.Layer:
    """Creates a BiLSTM, of the outputs forwards, then backwards.

    Call arguments: `[B, S, D]` float, and `mask`, `[B, S]` bool.

    Returns:
        The layer, whose output is `[B, S, 2 * num_units]`.
    """
    lstm = keras.layers.LSTM(
        num_units,
        return_sequences=True,
        # cuDNN's LSTM cannot be compiled by XLA, which compiles the steps on a
        # GPU. Besides, it refuses rows without tokens, and its graphs run only
        # on GPUs.
        use_cudnn=False,
        name=inner_name,
    )
    return keras.layers.Bidirectional(lstm, name=name)


class WordLstm(layers.BertLayer):
    """A randomly initialized BiLSTM of two layers over the words of a text.

    Source: Devlin et al. 2019, §5.3, "Feature-based approach", and table 7.

    The weights of summed layers are learned, as in Peters et al. 2018, eq. 1.
    It is as wide as the encoder in each direction, 768 in the paper. The paper
    does not specify dropout; we apply that of the output layer before every
    LSTM.

    Args:
        features: as for `layer_numbers`.
        site: number of its first dropout site.

    Call arguments:
        hidden: `[B, T, D]` float, outputs of the embeddings and of each layer.
        word_mask: `[B, T]` int32, 1 for the first piece of each word. Other
            positions are skipped.

    Returns:
        `[B, T, 2 * D]`; meaningless at positions that are skipped.
    """

    def __init__(self, config: config_lib.BertConfig, features: str, site: int):
        super().__init__(name="features")
        self.config = config
        self.site = site
        self.numbers = layer_numbers(features, config.num_hidden_layers)
        self.is_sum = features.startswith("sum")
        self.stack = [
            bidirectional_lstm(
                config.hidden_size,
                name=f"bidirectional_{number}",
                inner_name=f"lstm_{number}",
            )
            for number in range(_NUM_LSTM_LAYERS)
        ]

    def build(self, input_shape: Shape = None) -> None:
        width = self.config.hidden_size
        num_layers = len(self.numbers)
        if self.is_sum:
            self.weights_of_layers = layers.add_variable(
                self, "layer_weights", (num_layers,), "zeros"
            )
            self.scale = layers.add_variable(self, "layer_scale", (), "ones")
        else:
            width *= num_layers
        for lstm in self.stack:
            lstm.build((None, None, width))
            width = 2 * self.config.hidden_size

    def call(
        self,
        hidden: Sequence[Tensor],
        word_mask: Tensor,
        dropout_seed: Tensor | None = None,
    ) -> Tensor:
        words = self._features([hidden[number] for number in self.numbers])
        mask = ops.cast(word_mask, "bool")
        for number, lstm in enumerate(self.stack):
            words = dropout.dropout(
                words,
                self.config.classifier_dropout_prob,
                dropout.site_seed(dropout_seed, self.site + number),
            )
            words = lstm(ops.cast(words, self.compute_dtype), mask=mask)
        return words

    def _features(self, chosen: Sequence[Tensor]) -> Tensor:
        if not self.is_sum:
            return ops.concatenate(chosen, axis=-1)  # [B, T, L * D]
        stacked = ops.cast(ops.stack(chosen, axis=2), "float32")
        weights = ops.softmax(self.weights_of_layers)  # [L]
        return self.scale * ops.einsum("btld,l->btd", stacked, weights)
