"""BERT that chooses one of several texts."""

from typing import Any

import keras
from keras import ops

from modeling import bert, heads, layers
from modeling import config as config_lib


class ChoiceScore(layers.BertLayer):
    """Scores a text by its dot product with one vector.

    There is no bias: it would raise the score of every choice alike.

    Args:
        config: for the width D.
        dtype: as for `layers.BertLayer`.

    Call arguments:
        pooled_output: `[B, D]` float.

    Returns:
        `[B]` float32.
    """

    def __init__(self, config: config_lib.BertConfig, *, dtype: Any = None):
        super().__init__(name="multiple_choice", dtype=dtype)
        self.width = config.hidden_size

    def build(self, input_shape=None):
        self.output_weights = self.add_variable(
            "output_weights",
            (1, self.width),
            layers.truncated_normal(heads.HEAD_INITIALIZER_RANGE),
        )

    def call(self, pooled_output):
        pooled = ops.cast(pooled_output, "float32")
        return ops.matmul(pooled, self.output_weights[0])  # [B]


class BertForMultipleChoice(keras.Model):
    """BERT with a score for each of several texts.

    Source: Devlin et al. 2019, §4.4: the only new parameter is a vector, whose
    dot product with the output of [CLS] scores a choice. That output is the
    pooled one, with the dropout of the classifier.

    Args:
        config: the network's sizes.
        name: of the model; the first part of its variables' paths.
        dtype: Keras policy or its name; the global one if None.

    Call arguments:
        input_ids: `[B, C, T]` int32, the C choices of each example.
        input_mask: `[B, C, T]` int32, as for `BertModel`; ones if None.
        segment_ids: `[B, C, T]` int32; zeros if None.
        dropout_seed: `[2]` int32, or None.

    Returns:
        A dict: `logits` `[B, C]` float32.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        name: str = "choice",
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.build()

    def build(self, input_shape=None):
        policy = self.dtype_policy
        self.bert = bert.BertModel(self.config, dtype=policy)
        self.score = ChoiceScore(self.config, dtype=policy)
        self.cls = heads.Heads({"multiple_choice": self.score}, dtype=policy)
        self.cls.build()

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        input_ids = ops.convert_to_tensor(input_ids)
        num_choices = input_ids.shape[1]
        pooled = self.bert(
            *map(_flat, (input_ids, input_mask, segment_ids)),
            dropout_seed=dropout_seed,
        )["pooled_output"]  # [B * C, D]
        pooled = layers.dropped(
            pooled,
            self.config.classifier_dropout_prob,
            dropout_seed,
            layers.num_dropout_sites(self.config),
        )
        scores = self.score(pooled)  # [B * C]
        return {"logits": ops.reshape(scores, (-1, num_choices))}  # [B, C]


def _flat(ids: Any) -> Any:
    """Makes `[B * C, T]` of `[B, C, T]`."""
    if ids is None:
        return None
    ids = ops.convert_to_tensor(ids)
    return ops.reshape(ids, (-1, ops.shape(ids)[-1]))
