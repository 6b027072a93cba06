"""The interface of an objective: the losses and metrics of one batch.

The loss of a batch is the sum of its terms. Each term is divided by a
denominator over the global batch, so that the update does not depend on the
number of replicas.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import keras
import tensorflow as tf

from modeling import losses

# The inputs of the models of `modeling.heads`.
PIECE_INPUTS = ("input_ids", "input_mask", "segment_ids")
# Their further input, if the texts of the batch are packed.
PACKED = "packed"

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
