"""Objective of tagging."""

import tensorflow as tf

from bert.tasks import objectives
from modeling import heads, losses


class TaggingObjective(objectives.FineTuning):
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
            self.inputs = (*objectives.PIECE_INPUTS, "label_mask")

    def denominators(
        self, features: objectives.Tensors
    ) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_sum(_word_weights(features))}

    def outcome(
        self,
        features: objectives.Tensors,
        denominators: objectives.Tensors,
        dropout_seed: objectives.Seed,
    ) -> objectives.Outcome:
        logits, label_ids, weights = self._scored(features, dropout_seed)
        word_losses = losses.cross_entropy(logits, label_ids)  # [B, T]
        loss = losses.mean_loss(word_losses, weights, denominators["loss"])
        return objectives.Outcome(
            losses={"loss": loss},
            metrics={
                "accuracy": objectives.weighted(
                    objectives.correct(logits, label_ids), weights
                )
            },
        )

    def predictions(self, features: objectives.Tensors) -> dict[str, tf.Tensor]:
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
        self, features: objectives.Tensors, dropout_seed: objectives.Seed
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        logits = self.outputs(features, dropout_seed)["logits"]
        # Shared padding is removed from the model's inputs alone.
        length = tf.shape(logits)[1]
        return (
            logits,
            features["label_ids"][:, :length],
            _word_weights(features)[:, :length],
        )


def _word_weights(features: objectives.Tensors) -> tf.Tensor:
    """Returns `[B, T]` float32: 1 for a labeled word of a real row."""
    rows = objectives.example_weights(features)  # [B]
    return tf.cast(features["label_mask"], tf.float32) * rows[:, tf.newaxis]
