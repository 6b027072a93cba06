"""The BiLSTM tagger of the feature-based approach.

Source: Devlin et al. 2019, §5.3.
"""

import keras
from keras import ops

from modeling import config as config_lib
from modeling import heads, layers

_NUM_LSTM_LAYERS = 2


class LstmTagger(keras.Model):
    """A BiLSTM word classifier on the hidden layers of a frozen encoder.

    Source: Devlin et al. 2019, §5.3, "Feature-based approach": a randomly
    initialized BiLSTM of two layers before the output layer. The weights of
    summed layers are learned, as in Peters et al. 2018, eq. 1. The paper does
    not specify dropout; we apply that of the output layer before every layer.

    Args:
        num_layers: L, the hidden layers of a word.
        hidden_size: D.
        is_sum: whether the layers are summed; otherwise they are concatenated.
        num_labels: K.
        num_units: LSTM units in each direction.
        name: of the model; the first part of its variables' paths.

    Call arguments:
        word_features: `[B, S, L * D]` float32, layer by layer.
        label_mask: `[B, S]` int32, 1 for a word, 0 for padding at the end.
        dropout_seed: `[2]` int32, or None for no dropout.

    Returns:
        A dict: `logits` `[B, S, K]` float32.

    Raises:
        ValueError: `num_labels` is not positive.
    """

    optional_variables = ()

    def __init__(
        self,
        *,
        num_layers: int,
        hidden_size: int,
        is_sum: bool,
        num_labels: int,
        num_units: int = 768,
        name: str = "lstm_tagger",
    ):
        heads.check_num_labels(num_labels)
        super().__init__(name=name, autocast=False)
        self.sizes = (num_layers, hidden_size)
        self.is_sum = is_sum
        self.num_labels = num_labels
        self.stack = [
            heads.bidirectional_lstm(
                num_units,
                name=f"bidirectional_{number}",
                inner_name=f"lstm_{number}",
            )
            for number in range(_NUM_LSTM_LAYERS)
        ]
        self.num_units = num_units
        self.build()

    def build(self, input_shape=None):
        num_layers, size = self.sizes
        if self.is_sum:
            self.layer_weights = self.add_weight(
                shape=(num_layers,),
                initializer="zeros",
                name="layer_weights",
                autocast=False,
            )
            self.layer_scale = self.add_weight(
                shape=(), initializer="ones", name="layer_scale", autocast=False
            )
        else:
            size *= num_layers
        for lstm in self.stack:
            lstm.build((None, None, size))
            size = 2 * self.num_units
        self.output_weights, self.output_bias = heads.output_variables(
            self, (self.num_labels, size), heads.HEAD_INITIALIZER_RANGE
        )

    def call(self, word_features, label_mask, dropout_seed=None):
        hidden = word_features
        if self.is_sum:
            hidden = self._weighted_sum(hidden)  # [B, S, D]
        mask = ops.cast(label_mask, "bool")  # [B, S]
        for site, lstm in enumerate(self.stack):
            hidden = layers.dropped(
                hidden, config_lib.CLASSIFIER_DROPOUT_PROB, dropout_seed, site
            )
            hidden = ops.cast(hidden, self.compute_dtype)
            hidden = lstm(hidden, mask=mask)  # [B, S, 2 * num_units]
        hidden = layers.dropped(
            hidden,
            config_lib.CLASSIFIER_DROPOUT_PROB,
            dropout_seed,
            len(self.stack),
        )
        logits = heads.output_logits(
            hidden, self.output_weights, self.output_bias
        )
        return {"logits": logits}

    def _weighted_sum(self, features):
        num_layers, size = self.sizes
        batch, length = ops.shape(features)[:2]
        by_layer = ops.reshape(features, (batch, length, num_layers, size))
        weights = ops.softmax(self.layer_weights) * self.layer_scale  # [L]
        return ops.sum(by_layer * weights[:, None], axis=2)  # [B, S, D]
