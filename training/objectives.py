"""What a run minimises and reports: losses and metrics of one batch.

The loss of a batch is the sum of its terms; each term is divided by a
denominator counted over the whole batch, whichever replica holds the rows, so
that the update does not depend on the number of replicas.
"""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import keras
import tensorflow as tf

from modeling import heads, losses

Features = Mapping[str, tf.Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one forward pass over a replica's rows.

    Attributes:
        losses: `[]` float32 each, already divided by the denominators of the
            whole batch; their sum, summed over the replicas, is the loss.
        metrics: for each name the sum of a quantity over the rows, and the sum
            of its weights; their ratio is the metric.
    """

    losses: dict[str, tf.Tensor]
    metrics: dict[str, tuple[tf.Tensor, tf.Tensor]]


class Objective(Protocol):
    """What the training loop asks of a task."""

    model: keras.Model

    def denominators(self, features: Features) -> dict[str, tf.Tensor]:
        """Counts what each loss is divided by, over these rows alone."""

    def outcome(
        self,
        features: Features,
        denominators: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor | None,
    ) -> Outcome:
        """Runs the model; without a dropout seed, as in evaluation."""


class Predicting(Protocol):
    """What prediction asks of a task."""

    def predictions(self, features: Features) -> dict[str, tf.Tensor]:
        """Scores rows: `[B, ...]` tensors by name."""


class Pretraining:
    """Masked-language-model and next-sentence losses.

    Source: Devlin et al. 2019, §3.1 and §5.1.

    Args:
        model: the encoder with its pre-training heads.
        objective: "mlm_nsp" for both losses; "mlm" for the first alone; "ltr"
            for a left-to-right language model, which predicts every token of
            the original text from those before it.
    """

    def __init__(self, model: heads.BertForPreTraining, objective: str):
        self.model = model
        self._objective = objective

    def denominators(self, features: Features) -> dict[str, tf.Tensor]:
        targets = self._targets(features)
        counts = {"masked_lm_loss": tf.reduce_sum(targets.weights)}
        if self._objective == "mlm_nsp":
            counts["next_sentence_loss"] = tf.reduce_sum(
                example_weights(features)
            )
        return counts

    def outcome(
        self,
        features: Features,
        denominators: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor | None,
    ) -> Outcome:
        targets = self._targets(features)
        outputs = self.model(
            input_ids=targets.input_ids,
            input_mask=features["input_mask"],
            segment_ids=features["segment_ids"],
            masked_lm_positions=targets.positions,
            masked_lm_ids=targets.ids,
            dropout_seed=dropout_seed,
        )
        metrics = {
            "masked_lm_accuracy": weighted(
                outputs["masked_lm_correct"], targets.weights
            ),
            "masked_lm_loss": weighted(
                outputs["masked_lm_losses"], targets.weights
            ),
        }
        terms = {
            "masked_lm_loss": metrics["masked_lm_loss"][0]
            / (denominators["masked_lm_loss"] + losses.MASKED_LM_OFFSET)
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
            terms["next_sentence_loss"] = (
                metrics["next_sentence_loss"][0]
                / denominators["next_sentence_loss"]
            )
        return Outcome(losses=terms, metrics=metrics)

    def _targets(self, features: Features) -> "_Targets":
        if self._objective == "ltr":
            return _next_tokens(features)
        weights = features["masked_lm_weights"]
        return _Targets(
            input_ids=features["input_ids"],
            positions=features["masked_lm_positions"],
            ids=features["masked_lm_ids"],
            weights=weights * example_weights(features)[:, tf.newaxis],
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Targets:
    """What the language model reads and predicts.

    Attributes:
        input_ids: `[B, T]` int32.
        positions: `[B, P]` int32, the places whose outputs predict.
        ids: `[B, P]` int32, the tokens to predict there.
        weights: `[B, P]` float32, 0 where nothing is predicted.
    """

    input_ids: tf.Tensor
    positions: tf.Tensor
    ids: tf.Tensor
    weights: tf.Tensor


def _next_tokens(features: Features) -> _Targets:
    """Turns masked records back into text, each token predicting the next."""
    masked = features["input_ids"]
    batch, length = masked.shape
    real = tf.cast(features["masked_lm_weights"] > 0, tf.int32)
    rows = tf.repeat(tf.range(batch), features["masked_lm_ids"].shape[1])
    places = tf.stack(
        [rows, tf.reshape(features["masked_lm_positions"], [-1])], axis=1
    )  # [B * P, 2]
    # Padding predictions all point at place 0: add differences, 0 for those.
    current = tf.gather(masked, features["masked_lm_positions"], batch_dims=1)
    change = (features["masked_lm_ids"] - current) * real  # [B, P]
    original = tf.tensor_scatter_nd_add(
        masked, places, tf.reshape(change, [-1])
    )
    weights = tf.cast(features["input_mask"][:, 1:], tf.float32)
    return _Targets(
        input_ids=original,
        positions=tf.tile(tf.range(length - 1)[tf.newaxis], [batch, 1]),
        ids=original[:, 1:],
        weights=weights * example_weights(features)[:, tf.newaxis],
    )


def example_weights(features: Features) -> tf.Tensor:
    """Returns `[B]` float32: 0 for rows that only fill the batch."""
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
