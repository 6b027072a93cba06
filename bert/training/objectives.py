"""Training objectives: the losses and metrics of one batch.

The loss of a batch is the sum of its terms. Each term is divided by a
denominator over the global batch, so that the update does not depend on the
number of replicas.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import keras
import tensorflow as tf

from bert.tasks import task
from modeling import heads, losses

# The inputs of the models of `modeling.heads`.
PIECE_INPUTS = ("input_ids", "input_mask", "segment_ids")
# Their further input, if the texts of the batch are packed.
PACKED = "packed"
_NO_LOGIT = -1e30

Tensors = Mapping[str, tf.Tensor]
Seed: TypeAlias = tf.Tensor | None  # None: no dropout.


# A tuple, because compiled functions and replicas return it.
class Outcome(NamedTuple):
    """The result of one forward pass over a replica's rows.

    Attributes:
        losses: `[]` float32 each, already divided by the denominators of the
            global batch; their sum over terms and replicas is the loss.
        metrics: for each name the weighted sum of a quantity over the rows, and
            the sum of its weights; their ratio is the metric.
    """

    losses: dict[str, tf.Tensor]
    metrics: dict[str, tuple[tf.Tensor, tf.Tensor]]


class Objective(abc.ABC):
    """A model with its losses and metrics.

    Args:
        model: the encoder with its output layer.

    Attributes:
        inputs: the features that are inputs of the model, besides `PACKED`.
    """

    inputs: Sequence[str] = PIECE_INPUTS

    def __init__(self, model: keras.Model):
        self.model = model

    def outputs(self, features: Tensors, dropout_seed: Seed) -> Tensors:
        """Runs the model; without a dropout seed in evaluation mode."""
        more = [PACKED] if PACKED in features else []
        inputs = {name: features[name] for name in (*self.inputs, *more)}
        return self.model(**inputs, dropout_seed=dropout_seed)

    @abc.abstractmethod
    def denominators(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Computes the part of these rows in the denominator of each loss."""

    @abc.abstractmethod
    def outcome(
        self, features: Tensors, denominators: Tensors, dropout_seed: Seed
    ) -> Outcome:
        """Runs the model; without a dropout seed in evaluation mode."""


class Pretraining(Objective):
    """Masked-language-model and next-sentence losses.

    Source: Devlin et al. 2019, §3.1 and §5.1.

    Args:
        model: the encoder with its pre-training heads.
        objective: "mlm_nsp" for both losses; "mlm" for the first alone; "ltr"
            for a left-to-right language model, which predicts each token of
            the original text from the preceding ones.
    """

    inputs = (*PIECE_INPUTS, "masked_lm_positions", "masked_lm_ids")

    def __init__(self, model: heads.BertForPreTraining, objective: str):
        super().__init__(model)
        self._objective = objective

    def denominators(self, features: Tensors) -> dict[str, tf.Tensor]:
        weights = self._targets(features)["masked_lm_weights"]
        counts = {"masked_lm_loss": tf.reduce_sum(weights)}
        if self._objective == "mlm_nsp":
            counts["next_sentence_loss"] = tf.reduce_sum(
                example_weights(features)
            )
        return counts

    def outcome(
        self, features: Tensors, denominators: Tensors, dropout_seed: Seed
    ) -> Outcome:
        targets = self._targets(features)
        outputs = self.outputs(targets, dropout_seed)
        weights = targets["masked_lm_weights"]
        metrics = {
            "masked_lm_accuracy": weighted(
                outputs["masked_lm_correct"], weights
            ),
            "masked_lm_loss": weighted(outputs["masked_lm_losses"], weights),
        }
        terms = {
            "masked_lm_loss": losses.masked_lm_loss(
                outputs["masked_lm_losses"],
                weights,
                denominators["masked_lm_loss"],
            )
        }
        if self._objective == "mlm_nsp":
            labels = tf.reshape(features["next_sentence_labels"], [-1])
            weights = example_weights(features)
            logits = outputs["next_sentence_logits"]
            pair_losses = losses.cross_entropy(logits, labels)
            metrics["next_sentence_accuracy"] = weighted(
                correct(logits, labels), weights
            )
            metrics["next_sentence_loss"] = weighted(pair_losses, weights)
            terms["next_sentence_loss"] = losses.mean_loss(
                pair_losses, weights, denominators["next_sentence_loss"]
            )
        return Outcome(losses=terms, metrics=metrics)

    def _targets(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Returns features with the targets; padding rows have weight 0."""
        if self._objective == "ltr":
            features = _next_tokens(features)
        weights = example_weights(features)[:, tf.newaxis]
        weights = features["masked_lm_weights"] * weights
        return {**features, "masked_lm_weights": weights}


def _next_tokens(features: Tensors) -> Tensors:
    """Restores the text of masked records; each token predicts the next."""
    masked = features["input_ids"]
    # An evaluation by several workers does not know the number of rows.
    batch, length = keras.ops.shape(masked)
    real = tf.cast(features["masked_lm_weights"] > 0, tf.int32)
    rows = tf.repeat(tf.range(batch), features["masked_lm_ids"].shape[1])
    places = tf.stack(
        [rows, tf.reshape(features["masked_lm_positions"], [-1])], axis=1
    )  # [B * P, 2]
    # All padding has position 0: add differences, which are 0 for padding.
    current = tf.gather(masked, features["masked_lm_positions"], batch_dims=1)
    change = (features["masked_lm_ids"] - current) * real  # [B, P]
    original = tf.tensor_scatter_nd_add(
        masked, places, tf.reshape(change, [-1])
    )
    return {
        **features,
        "input_ids": original,
        "masked_lm_positions": tf.tile(
            tf.range(length - 1)[tf.newaxis], [batch, 1]
        ),
        "masked_lm_ids": original[:, 1:],
        "masked_lm_weights": tf.cast(features["input_mask"][:, 1:], tf.float32),
    }


class FineTuning(Objective):
    """Base class of the objectives of tasks that predict."""

    @abc.abstractmethod
    def predictions(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Scores rows: `[B, ...]` tensors by name."""


class PerExample(FineTuning):
    """Base class of objectives whose loss is a mean over examples.

    A subclass defines `row_losses` and `predictions`.
    """

    def denominators(self, features: Tensors) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_sum(self.row_weights(features))}

    def outcome(
        self, features: Tensors, denominators: Tensors, dropout_seed: Seed
    ) -> Outcome:
        outputs = self.outputs(features, dropout_seed)
        weights = example_weights(features)
        loss = losses.mean_loss(
            self.row_losses(features, outputs),
            self.row_weights(features),
            denominators["loss"],
        )
        metrics = {
            name: weighted(values, weights)
            for name, values in self.row_metrics(features, outputs).items()
        }
        return Outcome(losses={"loss": loss}, metrics=metrics)

    @abc.abstractmethod
    def row_losses(self, features: Tensors, outputs: Tensors) -> tf.Tensor:
        """Computes the loss of each row, `[B]` float32."""

    def row_weights(self, features: Tensors) -> tf.Tensor:
        """Returns the weight of each row in the mean loss, `[B]` float32."""
        return example_weights(features)

    def row_metrics(self, features: Tensors, outputs: Tensors) -> Tensors:
        """Computes metrics of each row: `[B]` float32 by name; default none."""
        del features, outputs
        return {}


class Classification(PerExample):
    """One label, several labels or a score for each example.

    Source: Devlin et al. 2019, §4.1. An example is a text or a pair; or, with a
    `modeling.heads.BertForMultipleChoice`, a set of choices, whose label is
    the index of the correct one (§4.4: a softmax over their scores).
    Features in addition to the model's inputs: `label_ids`, `[B, 1]` int32 for
    a label, `[B, K]` float32 (each 0 or 1) for several, `[B, 1]` float32 for a
    score.

    The loss is a weighted mean, `sum(w * loss) / sum(w)`. With class weights an
    example of one label has the weight of its class. With several labels each
    positive one has the weight of its class, and each negative one weight 1.

    Args:
        model: returns `logits` `[B, K]`.
        problem_type: one of `task.PROBLEM_TYPES`.
        class_weights: the weights of the `K` classes in training; all 1 if
            empty.
    """

    def __init__(
        self,
        model: keras.Model,
        problem_type: str,
        class_weights: Sequence[float] = (),
    ):
        super().__init__(model)
        self._problem_type = problem_type
        self._class_weights = tuple(class_weights)

    def row_losses(self, features: Tensors, outputs: Tensors) -> tf.Tensor:
        weights = self._class_weights_of(features)
        return self._losses(features, outputs["logits"], weights)

    def row_weights(self, features: Tensors) -> tf.Tensor:
        rows = example_weights(features)
        weights = self._class_weights_of(features)
        return rows if weights is None else rows * tf.reduce_mean(weights, 1)

    def _class_weights_of(self, features: Tensors) -> tf.Tensor | None:
        """Returns class weights: `[B, 1]`, or `[B, K]` for several labels."""
        if not self._class_weights:
            return None
        labels, weights = features["label_ids"], self._class_weights
        if self._problem_type == task.SINGLE_LABEL:
            return tf.gather(tf.constant(weights), labels)  # [B, 1]
        return tf.where(labels > 0, weights, tf.ones_like(labels))  # [B, K]

    def _losses(
        self,
        features: Tensors,
        logits: tf.Tensor,
        class_weights: tf.Tensor | None = None,
    ) -> tf.Tensor:
        labels = features["label_ids"]
        if self._problem_type == task.SINGLE_LABEL:
            return losses.cross_entropy(logits, labels[:, 0])
        if self._problem_type == task.REGRESSION:
            return losses.squared_error(logits[:, 0], labels[:, 0])
        return losses.several_labels_cross_entropy(
            logits, labels, class_weights
        )

    def row_metrics(self, features: Tensors, outputs: Tensors) -> Tensors:
        if self._problem_type != task.SINGLE_LABEL:
            return {}
        labels = features["label_ids"][:, 0]
        return {"accuracy": correct(outputs["logits"], labels)}

    def predictions(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Scores each row.

        Returns:
            `outputs` `[B, K]` float32, probabilities or scores, and `losses`
            `[B]` float32, without class weights.
        """
        outputs = self.outputs(features, None)
        activation = {
            task.SINGLE_LABEL: tf.nn.softmax,
            task.MULTI_LABEL: tf.nn.sigmoid,
            task.REGRESSION: tf.identity,
        }[self._problem_type]
        return {
            "outputs": activation(outputs["logits"]),
            "losses": self._losses(features, outputs["logits"]),
        }


class SpanExtraction(PerExample):
    """The start and the end of the answer to a question.

    Source: Devlin et al. 2019, §4.2 and §4.3. Features in addition to the
    model's inputs: `start_positions` and `end_positions`, `[B, 1]` int32, in
    training; `unique_ids`, `[B, 1]` int32.

    Args:
        model: returns `start_logits` and `end_logits`, `[B, T]`.
    """

    def row_losses(self, features: Tensors, outputs: Tensors) -> tf.Tensor:
        logits = outputs["start_logits"], outputs["end_logits"]
        if PACKED in features:
            # A packed batch has no outputs for padding.
            is_token = features["input_mask"] > 0
            logits = tuple(tf.where(is_token, x, _NO_LOGIT) for x in logits)
        return losses.span_cross_entropy(
            logits,
            (
                features["start_positions"][:, 0],
                features["end_positions"][:, 0],
            ),
        )

    def predictions(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Scores each position of each window.

        Returns:
            `unique_ids` `[B]` int32, `start_logits` and `end_logits` `[B, T]`
            float32.
        """
        outputs = self.outputs(features, None)
        return {"unique_ids": features["unique_ids"][:, 0], **outputs}


class Tagging(FineTuning):
    """One label for each word.

    Source: Devlin et al. 2019, §5.3. Features in addition to the model's
    inputs, where `T` counts word pieces or words: `label_ids` and `label_mask`,
    `[B, T]` int32; positions outside the mask have no label.

    Args:
        model: returns `logits` `[B, T, K]`.
    """

    def __init__(self, model: heads.BertForTokenClassification):
        super().__init__(model)
        if model.features:
            self.inputs = (*PIECE_INPUTS, "label_mask")

    def denominators(self, features: Tensors) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_sum(_word_weights(features))}

    def outcome(
        self, features: Tensors, denominators: Tensors, dropout_seed: Seed
    ) -> Outcome:
        logits, label_ids, weights = self._scored(features, dropout_seed)
        word_losses = losses.cross_entropy(logits, label_ids)  # [B, T]
        loss = losses.mean_loss(word_losses, weights, denominators["loss"])
        return Outcome(
            losses={"loss": loss},
            metrics={"accuracy": weighted(correct(logits, label_ids), weights)},
        )

    def predictions(self, features: Tensors) -> dict[str, tf.Tensor]:
        """Labels the words of each row.

        Returns:
            `label_ids` `[B, T]` int32, the best label of each position;
            `label_mask` `[B, T]` int32, as in the features; `losses` `[B]`
            float32, nats, summed over the words of a row.
        """
        logits, label_ids, weights = self._scored(features, None)
        word_losses = losses.cross_entropy(logits, label_ids)  # [B, T]
        return {
            "label_ids": tf.argmax(logits, axis=-1, output_type=tf.int32),
            "label_mask": tf.cast(weights, tf.int32),
            "losses": tf.reduce_sum(word_losses * weights, axis=1),
        }

    def _scored(
        self, features: Tensors, dropout_seed: Seed
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        logits = self.outputs(features, dropout_seed)["logits"]
        # Shared padding is removed from the model's inputs alone.
        length = tf.shape(logits)[1]
        return (
            logits,
            features["label_ids"][:, :length],
            _word_weights(features)[:, :length],
        )


def example_weights(features: Tensors) -> tf.Tensor:
    """Returns `[B]` float32: 0 for padding rows of the batch."""
    weights = features.get("example_weights")
    if weights is None:
        weights = tf.ones(tf.shape(features["input_ids"])[0])
    return weights


def correct(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns `[...]` float32: 1 where the best of `[..., K]` is the label."""
    predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return tf.cast(predictions == labels, tf.float32)


def weighted(
    values: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the weighted sum of values, and the sum of their weights."""
    return tf.reduce_sum(values * weights), tf.reduce_sum(weights)


def _word_weights(features: Tensors) -> tf.Tensor:
    """Returns `[B, T]` float32: 1 for a labeled word of a real row."""
    weights = tf.cast(features["label_mask"], tf.float32)
    rows = features.get("example_weights")
    return weights if rows is None else weights * rows[:, tf.newaxis]
