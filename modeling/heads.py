"""BERT with what it is pre-trained or fine-tuned for on top.

Each model makes its encoder in `build`, inside its own scope, so that every
path is the model's name followed by the release's name of the variable.
"""

from typing import Any

import keras
from keras import ops

from modeling import bert, layers, masked_words
from modeling import config as config_lib

OBJECTIVES = ("mlm_nsp", "mlm", "ltr")

# Source: run_classifier.py and run_squad.py of the release, which fix the
# spread of the heads whatever the config.
HEAD_INITIALIZER_RANGE = 0.02


class OutputLayer(layers.BertLayer):
    """A linear layer in float32, stored as the release's heads are.

    Args:
        config: for the width D.
        num_outputs: K.
        initializer_range: of the weights.
        name, dtype: as for `layers.BertLayer`.

    Call arguments:
        x: `[..., D]` float.

    Returns:
        `[..., K]` float32 logits.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        num_outputs: int,
        initializer_range: float = HEAD_INITIALIZER_RANGE,
        *,
        name: str,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.shape = (num_outputs, config.hidden_size)
        self.initializer_range = initializer_range

    def build(self, input_shape=None):
        self.output_weights, self.output_bias = output_variables(
            self, self.shape, self.initializer_range
        )

    def call(self, x):
        return output_logits(x, self.output_weights, self.output_bias)


class Heads(layers.BertLayer):
    """Layers under the release's scope "cls"; the model calls them.

    Args:
        children: layers by attribute name, built in this order.
        dtype: Keras policy or its name.
    """

    def __init__(
        self, children: dict[str, keras.layers.Layer], *, dtype: Any = None
    ):
        super().__init__(name="cls", dtype=dtype)
        self.children = children

    def build(self, input_shape=None):
        for child in self.children.values():
            child.build()


class BertForPreTraining(keras.Model):
    """BERT with the masked language model and next sentence prediction.

    Source: Devlin et al. 2019, §3.1; the objectives are those of §5.1.

    Args:
        config: the network's sizes.
        objective: "mlm_nsp", "mlm" or "ltr"; all have the same variables. What
            is trained is the caller's loss; here "ltr" makes attention causal.
        name: of the model; the first part of its variables' paths.
        dtype: Keras policy or its name; the global one if None.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed: as for `BertModel`.
        masked_lm_positions: `[B, P]` int32, in [0, T).
        masked_lm_ids: `[B, P]` int32, in [0, V), or None.

    Returns:
        A dict of float32: `masked_lm_logits` `[B, P, V]`,
        `next_sentence_logits` `[B, 2]` (0 the next text, 1 a random one).
        With `masked_lm_ids` in place of the former, which are most of the
        memory of a step, `masked_lm_losses` and `masked_lm_correct`, each
        `[B, P]`.

    Raises:
        ValueError: the objective is not known.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        objective: str = "mlm_nsp",
        name: str = "pretraining",
        dtype: Any = None,
    ):
        if objective not in OBJECTIVES:
            raise ValueError(
                f"objective must be one of {', '.join(OBJECTIVES)}; "
                f"got {objective!r}."
            )
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.objective = objective
        self.build()

    def build(self, input_shape=None):
        config, policy = self.config, self.dtype_policy
        self.bert = bert.BertModel(
            config, causal=self.objective == "ltr", dtype=policy
        )
        self.predictions = masked_words.MaskedLanguageModel(
            config, dtype=policy
        )
        self.seq_relationship = OutputLayer(
            config,
            2,
            config.initializer_range,
            name="seq_relationship",
            dtype=policy,
        )
        heads = {
            "predictions": self.predictions,
            "seq_relationship": self.seq_relationship,
        }
        self.cls = Heads(heads, dtype=policy)
        self.cls.build()

    def call(
        self,
        input_ids,
        input_mask,
        segment_ids,
        masked_lm_positions,
        masked_lm_ids=None,
        dropout_seed=None,
    ):
        outputs = self.bert(
            input_ids, input_mask, segment_ids, dropout_seed=dropout_seed
        )
        words = self.predictions(
            outputs["sequence_output"],
            masked_lm_positions,
            self.bert.word_embeddings,
            ids=masked_lm_ids,
        )
        if masked_lm_ids is None:
            scores = {"masked_lm_logits": words}
        else:
            losses, correct = words
            scores = {"masked_lm_losses": losses, "masked_lm_correct": correct}
        scores["next_sentence_logits"] = self.seq_relationship(
            outputs["pooled_output"]
        )
        return scores


class BertForSequenceClassification(keras.Model):
    """BERT with one label, or one score, per sequence.

    Source: Devlin et al. 2019, §4.1. A score is `num_labels=1`.

    Args:
        config: the network's sizes.
        num_labels: K.
        name: of the model; the first part of its variables' paths.
        dtype: Keras policy or its name; the global one if None.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed: as for `BertModel`.

    Returns:
        A dict: `logits` `[B, K]` float32.

    Raises:
        ValueError: `num_labels` is not positive.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        num_labels: int,
        name: str = "classification",
        dtype: Any = None,
    ):
        if num_labels < 1:
            raise ValueError(f"num_labels must be positive; got {num_labels}.")
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.num_labels = num_labels
        self.build()

    def build(self, input_shape=None):
        self.bert = bert.BertModel(self.config, dtype=self.dtype_policy)
        shape = (self.num_labels, self.config.hidden_size)
        self.output_weights, self.output_bias = output_variables(
            self, shape, HEAD_INITIALIZER_RANGE
        )

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        pooled = self.bert(
            input_ids, input_mask, segment_ids, dropout_seed=dropout_seed
        )["pooled_output"]  # [B, D]
        pooled = layers.dropped(
            pooled,
            self.config.classifier_dropout_prob,
            dropout_seed,
            layers.num_dropout_sites(self.config),
        )
        logits = output_logits(pooled, self.output_weights, self.output_bias)
        return {"logits": logits}


class BertForQuestionAnswering(keras.Model):
    """BERT with the start and the end of an answer.

    Source: Devlin et al. 2019, §4.2. The pooler exists, and learns nothing.

    Args:
        config: the network's sizes.
        name: of the model; the first part of its variables' paths.
        dtype: Keras policy or its name; the global one if None.

    Call arguments:
        input_ids, input_mask, segment_ids, dropout_seed: as for `BertModel`.

    Returns:
        A dict: `start_logits` and `end_logits`, each `[B, T]` float32.
    """

    def __init__(
        self,
        config: config_lib.BertConfig,
        *,
        name: str = "question_answering",
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.build()

    def build(self, input_shape=None):
        policy = self.dtype_policy
        self.bert = bert.BertModel(self.config, dtype=policy)
        self.span = OutputLayer(self.config, 2, name="squad", dtype=policy)
        self.cls = Heads({"squad": self.span}, dtype=policy)
        self.cls.build()

    def call(
        self, input_ids, input_mask=None, segment_ids=None, dropout_seed=None
    ):
        outputs = self.bert(
            input_ids, input_mask, segment_ids, dropout_seed=dropout_seed
        )
        logits = self.span(outputs["sequence_output"])  # [B, T, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def output_variables(
    layer: keras.layers.Layer, shape: tuple[int, int], initializer_range: float
) -> tuple[Any, Any]:
    """Adds `output_weights` `[K, D]` and `output_bias` `[K]` to a layer."""
    weights = layer.add_weight(
        shape=shape,
        initializer=layers.truncated_normal(initializer_range),
        name="output_weights",
        autocast=False,
    )
    bias = layer.add_weight(
        shape=shape[:1], initializer="zeros", name="output_bias", autocast=False
    )
    return weights, bias


def output_logits(x: Any, weights: Any, bias: Any) -> Any:
    """Multiplies `[..., D]` by `[K, D]` and adds `[K]`, all in float32."""
    product = ops.matmul(ops.cast(x, "float32"), ops.transpose(weights))
    return product + bias  # [..., K]
