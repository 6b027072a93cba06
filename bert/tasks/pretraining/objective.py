"""Objective of pre-training: masked words and next sentences."""

import keras
import tensorflow as tf

from bert.tasks import objectives
from modeling import heads, losses


class PretrainingObjective(objectives.Objective):
    """Masked-language-model and next-sentence losses.

    Source: Devlin et al. 2019, §3.1 and §5.1.

    Args:
        model: the encoder with its pre-training heads.
        objective: "mlm_nsp" for both losses; "mlm" for the first alone; "ltr"
            for a left-to-right language model, which predicts each token of
            the original text from the preceding ones.
    """

    inputs = (*objectives.PIECE_INPUTS, "masked_lm_positions", "masked_lm_ids")

    def __init__(self, model: heads.BertForPreTraining, objective: str):
        super().__init__(model)
        self._objective = objective

    def denominators(
        self, features: objectives.Tensors
    ) -> dict[str, tf.Tensor]:
        weights = self._targets(features)["masked_lm_weights"]
        counts = {"masked_lm_loss": tf.reduce_sum(weights)}
        if self._objective == "mlm_nsp":
            counts["next_sentence_loss"] = tf.reduce_sum(
                objectives.example_weights(features)
            )
        return counts

    def outcome(
        self,
        features: objectives.Tensors,
        denominators: objectives.Tensors,
        dropout_seed: objectives.Seed,
    ) -> objectives.Outcome:
        targets = self._targets(features)
        outputs = self.outputs(targets, dropout_seed)
        weights = targets["masked_lm_weights"]
        metrics = {
            "masked_lm_accuracy": objectives.weighted(
                outputs["masked_lm_correct"], weights
            ),
            "masked_lm_loss": objectives.weighted(
                outputs["masked_lm_losses"], weights
            ),
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
            weights = objectives.example_weights(features)
            logits = outputs["next_sentence_logits"]
            pair_losses = losses.cross_entropy(logits, labels)
            metrics["next_sentence_accuracy"] = objectives.weighted(
                objectives.correct(logits, labels), weights
            )
            metrics["next_sentence_loss"] = objectives.weighted(
                pair_losses, weights
            )
            terms["next_sentence_loss"] = losses.mean_loss(
                pair_losses, weights, denominators["next_sentence_loss"]
            )
        return objectives.Outcome(losses=terms, metrics=metrics)

    def _targets(self, features: objectives.Tensors) -> dict[str, tf.Tensor]:
        """Returns features with the targets; padding rows have weight 0."""
        if self._objective == "ltr":
            features = _next_tokens(features)
        weights = objectives.example_weights(features)[:, tf.newaxis]
        weights = features["masked_lm_weights"] * weights
        return {**features, "masked_lm_weights": weights}


def _next_tokens(features: objectives.Tensors) -> objectives.Tensors:
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
