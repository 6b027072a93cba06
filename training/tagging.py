"""What taggers minimise: a label for each word of a sentence."""

from collections.abc import Mapping, Sequence

import keras
import tensorflow as tf

from modeling import losses
from training import objectives, records

# What the models of `modeling.tagging` are called with.
PIECE_INPUTS = ("input_ids", "input_mask", "segment_ids")
WORD_INPUTS = ("word_features", "label_mask")


def tagging_features(max_seq_length: int) -> tuple[records.Feature, ...]:
    """Describes the records of windows with labelled words.

    `label_mask` is 1 at the first piece of each word that has a label here.
    """
    names = (*PIECE_INPUTS, "label_ids", "label_mask")
    return tuple(
        records.Feature(name=name, shape=(max_seq_length,)) for name in names
    )


class Tagging:
    """One label for each word.

    Source: Devlin et al. 2019, §5.3. Features beside the model's inputs, `T`
    being word pieces or words: `label_ids` and `label_mask`, `[B, T]` int32;
    what is not in the mask has no label.

    Args:
        model: gives `logits` `[B, T, K]`.
        inputs: the features that it is called with.
    """

    def __init__(self, model: keras.Model, inputs: Sequence[str]):
        self.model = model
        self._inputs = tuple(inputs)

    def denominators(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        return {"loss": tf.reduce_sum(_weights(features))}

    def outcome(
        self,
        features: objectives.Features,
        denominators: Mapping[str, tf.Tensor],
        dropout_seed: tf.Tensor | None,
    ) -> objectives.Outcome:
        logits, label_ids, weights = self._scored(features, dropout_seed)
        word_losses = losses.cross_entropy(logits, label_ids)  # [B, T]
        total, _ = objectives.weighted(word_losses, weights)
        return objectives.Outcome(
            losses={"loss": tf.math.divide_no_nan(total, denominators["loss"])},
            metrics={
                "accuracy": objectives.weighted(
                    objectives.correct(logits, label_ids), weights
                )
            },
        )

    def predictions(
        self, features: objectives.Features
    ) -> dict[str, tf.Tensor]:
        """Labels the words of each row.

        Returns:
            `label_ids` `[B, T]` int32, the best label everywhere; `label_mask`
            `[B, T]` int32, as in the features; `losses` `[B]` float32, nats,
            summed over the words of a row.
        """
        logits, label_ids, weights = self._scored(features, None)
        word_losses = losses.cross_entropy(logits, label_ids)  # [B, T]
        return {
            "label_ids": tf.argmax(logits, axis=-1, output_type=tf.int32),
            "label_mask": tf.cast(weights, tf.int32),
            "losses": tf.reduce_sum(word_losses * weights, axis=1),
        }

    def _scored(self, features, dropout_seed):
        inputs = {name: features[name] for name in self._inputs}
        logits = self.model(**inputs, dropout_seed=dropout_seed)["logits"]
        # Shared padding is cut from the inputs alone.
        length = tf.shape(logits)[1]
        return (
            logits,
            features["label_ids"][:, :length],
            _weights(features)[:, :length],
        )


def _weights(features: objectives.Features) -> tf.Tensor:
    """Returns `[B, T]` float32: 1 for a labelled word of a real row."""
    weights = tf.cast(features["label_mask"], tf.float32)
    rows = features.get("example_weights")
    return weights if rows is None else weights * rows[:, tf.newaxis]
